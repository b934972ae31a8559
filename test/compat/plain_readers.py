#!/usr/bin/env python3
"""Clients that come without codecs read what an uncompressed producer wrote to a default topic, which is stored as lz4.

    plain_readers.py [--python BIN] [--node-modules DIR]

BIN is a Python that has kafka-python; its codec packages, if it has any, are hidden from it. DIR holds kafkajs, as installed,
without codecs. What is not given is skipped. kafkajs reads by its own protocol classes: its consumer only reads as a member of a
group.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from node import Node  # noqa: E402

RECORDS = 2000
PYTHON = r"""
import hashlib, json, sys
for codec in ("lz4", "lz4.frame", "lz4f", "snappy", "cramjam", "zstandard"):
    sys.modules[codec] = None
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], consumer_timeout_ms=10000)
partition = TopicPartition(sys.argv[2], 0)
consumer.assign([partition]); consumer.seek_to_beginning(partition)
values = []
for record in consumer:
    values.append(record.value)
    if len(values) == int(sys.argv[3]): break
print(json.dumps([len(values), hashlib.sha256(b"\n".join(values)).hexdigest()]))
"""
JAVASCRIPT = r"""
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { Kafka, logLevel } = require('kafkajs')
const [server, topic, wanted] = process.argv.slice(1)
const main = async () => {
  const kafka = new Kafka({ brokers: [server], logLevel: logLevel.NOTHING })
  const make = Object.getOwnPropertySymbols(kafka).concat(Object.getOwnPropertySymbols(Object.getPrototypeOf(kafka)))
    .find(s => s.description === 'private:Kafka:createCluster')
  const cluster = kafka[make]({ metadataMaxAge: 300000, allowAutoTopicCreation: false })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const broker = await cluster.findBroker({ nodeId: String(cluster.findTopicPartitionMetadata(topic)[0].leader) })
  const values = []
  while (values.length < Number(wanted)) {
    const { responses } = await broker.fetch({ maxWaitTime: 1000, minBytes: 1, maxBytes: 1 << 20, isolationLevel: 0,
      topics: [{ topic, partitions: [{ partition: 0, fetchOffset: String(values.length), maxBytes: 1 << 20 }] }] })
    const messages = responses[0].partitions[0].messages
    if (messages.length === 0) break
    for (const m of messages) if (Number(m.offset) >= values.length) values.push(m.value)
  }
  const hash = require('crypto').createHash('sha256').update(values.map(v => v.toString()).join('\n')).digest('hex')
  console.log(JSON.stringify([values.length, hash]))
  await cluster.disconnect()
}
main().catch(e => { console.error(e); process.exit(1) })
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python")
    parser.add_argument("--node-modules")
    arguments = parser.parse_args()
    values = [f"record {i} ".encode() + b"of a text that is worth compressing " * 20 for i in range(RECORDS)]
    text = b"\n".join(values)
    right = [RECORDS, hashlib.sha256(text).hexdigest()]
    passed = failed = skipped = 0
    with Node() as node:
        node.mq("topic", "create", "plain")
        node.mq("produce", "plain", input=text + b"\n", text=False)
        stored = sum(f.stat().st_size for f in node.data.rglob("*.log"))
        assert stored < len(text) / 2, f"{len(text)} bytes lie in {stored}: nothing was compressed"
        clients = {
            "kafka-python": arguments.python and ([arguments.python, "-c", PYTHON], {}),
            "kafkajs": arguments.node_modules and (["node", "-e", JAVASCRIPT], {"NODE_PATH": arguments.node_modules}),
        }
        for name, client in clients.items():
            if not client:
                print(f"skip   {name}: not given")
                skipped += 1
                continue
            command, environment = client
            result = subprocess.run([*command, node.address, "plain", str(RECORDS)], capture_output=True, text=True, timeout=120,
                                    env=dict(os.environ, **environment))
            good = result.returncode == 0 and json.loads(result.stdout) == right
            print(f"{'ok    ' if good else 'FAILED'} {name}" + ("" if good else f": {result.stdout} {result.stderr[-2000:]}"))
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
