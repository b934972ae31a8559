#!/usr/bin/env python3
"""A large text and a binary tree go through every pair of clients that is here, and come out with the checksum they went in.

    tour.py [--text FILE] [--binary FILE] [--kafka-libs DIR] [--megabytes N]

Text goes line by line, bytes in pieces of 256 KiB: in by `mq produce`, kcat, Java's console producer (text only) and franz-go,
out by `mq consume`, kcat, Java's console consumer and franz-go. Without FILEs the text is what this machine has under
/usr/include and /usr/share, and the bytes are a tar of /usr/lib. DIR holds the jars of Kafka's tools; franz-go is fetched by
`go`. A client that is not here is skipped, and said so. Lines are what every client's line mode takes: UTF-8, not empty, no
carriage return or form feed; others are left out of the text before the start.
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
from node import MQ, Node  # noqa: E402

PIECE = 256 << 10
LIMIT = 900  # seconds for one client
FRANZ_GO = "v1.22.3"
GO_PROGRAM = r"""
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tour produce|consume SERVER TOPIC text|binary RECORDS
func main() {
	text := os.Args[4] == "text"
	var records int
	fmt.Sscan(os.Args[5], &records)
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[2]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(os.Args[3]), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{os.Args[3]: {0: kgo.NewOffset().AtStart()}}))
	check(err)
	defer client.Close()
	ctx := context.Background()
	if os.Args[1] == "produce" {
		in := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			var value []byte
			if text {
				value, err = in.ReadBytes('\n')
				if len(value) > 0 && value[len(value)-1] == '\n' {
					value = value[:len(value)-1]
				}
			} else {
				value = make([]byte, 256<<10)
				var n int
				n, err = io.ReadFull(in, value)
				value = value[:n]
			}
			if len(value) > 0 {
				client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) { check(err) })
			}
			if err != nil {
				break
			}
		}
		check(client.Flush(ctx))
		return
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for records > 0 {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			check(e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			out.Write(r.Value)
			if text {
				out.WriteByte('\n')
			}
			records--
		})
	}
	check(out.Flush())
}
"""


class Skip(Exception):
    pass


class Clients:
    """Commands by name: writers read `path` (or stdin), readers write to stdout and end by themselves."""

    def __init__(self, work, libs):
        self.work, self.libs = work, libs
        self.missing = {}
        self.go = self._build_go()

    def _build_go(self):
        if not shutil.which("go"):
            self.missing["franz-go"] = "go is not here"
            return None
        folder = self.work / "go"
        folder.mkdir()
        (folder / "main.go").write_text(GO_PROGRAM)
        environment = dict(os.environ, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")
        for command in (["go", "mod", "init", "tour"], ["go", "get", f"github.com/twmb/franz-go@{FRANZ_GO}"], ["go", "build", "-o", "tour", "."]):
            result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if result.returncode:
                self.missing["franz-go"] = f"{' '.join(command)}: {result.stderr.strip().splitlines()[-1:]}"
                return None
        return str(folder / "tour")

    def java(self, tool, *arguments):
        if not self.libs or not shutil.which("java"):
            raise Skip("no java, or no --kafka-libs")
        return ["java", "-Xmx512m", "-cp", f"{self.libs}/*", f"org.apache.kafka.tools.{tool}", *arguments]

    def writer(self, name, kind, server, topic, path):
        """(command, file for stdin)"""
        if name == "mq":
            return [MQ, "produce", topic, "-q", "-b", server, "-p", "0", *(["--chunk", "256K"] if kind == "binary" else [])], path
        if name == "kcat":
            self.need("kcat")
            base = ["kcat", "-b", server, "-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=1000000"]
            if kind == "text":
                return base, path
            return ["sh", "-c", 'ls "$0"/* | xargs -n 500 "$@"', str(self.work / "pieces"), *base], None
        if name == "java":
            if kind == "binary":
                raise Skip("the console producer takes lines of text only")
            return self.java("ConsoleProducer", "--bootstrap-server", server, "--topic", topic, "--batch-size", "65536"), path
        return [self.franz(), "produce", server, topic, kind, "0"], path

    def reader(self, name, kind, server, topic, records):
        if name == "mq":
            return [MQ, "consume", topic, "-b", server, "-e", *(["--raw"] if kind == "binary" else [])]
        if name == "kcat":
            self.need("kcat")
            return ["kcat", "-b", server, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%s\n" if kind == "text" else "%s"]
        if name == "java":
            return self.java("consumer.ConsoleConsumer", "--bootstrap-server", server, "--topic", topic, "--partition", "0", "--offset", "earliest",
                             "--max-messages", str(records), "--formatter-property", "line.separator=" + ("\n" if kind == "text" else ""))
        return [self.franz(), "consume", server, topic, kind, str(records)]

    def franz(self):
        if not self.go:
            raise Skip(self.missing["franz-go"])
        return self.go

    @staticmethod
    def need(tool):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not here")


def digest(stream):
    sha, count = hashlib.sha256(), 0
    while data := stream.read(1 << 20):
        sha.update(data)
        count += len(data)
    return sha.hexdigest(), count


def make_text(path, bytes_wanted):
    """Readable files of this machine, one behind the other."""
    written = 0
    with open(path, "wb") as out:
        for root in ("/usr/include", "/usr/share", "/usr/lib/python3"):
            for folder, _, files in sorted(os.walk(root)):
                for file in sorted(files):
                    source = pathlib.Path(folder) / file
                    if source.suffix in (".gz", ".png", ".mo", ".pyc", ".so", ".zip", ".jar") or not source.is_file() or source.is_symlink():
                        continue
                    try:
                        data = source.read_bytes()
                        data.decode("utf-8")
                    except (OSError, UnicodeDecodeError):
                        continue
                    if b"\0" in data:
                        continue
                    written += out.write(data if data.endswith(b"\n") else data + b"\n")
                    if written >= bytes_wanted:
                        return


def clean_text(source, path):
    """What every line mode takes; returns the lines written and left out."""
    kept = left = 0
    with open(source, "rb") as lines, open(path, "wb") as out:
        for line in lines:
            line = line.rstrip(b"\n")
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                line = b""
            if not line or b"\r" in line or b"\0" in line or len(line) > 500_000:
                left += 1
                continue
            out.write(line + b"\n")
            kept += 1
    return kept, left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--kafka-libs")
    parser.add_argument("--megabytes", type=int, default=110, help="of what is made without FILEs")
    arguments = parser.parse_args()

    work = pathlib.Path(tempfile.mkdtemp(prefix="mq-tour-"))
    passed = failed = skipped = 0
    try:
        raw = arguments.text or work / "raw"
        if not arguments.text:
            make_text(raw, arguments.megabytes << 20)
        lines, left_out = clean_text(raw, work / "text")
        binary = arguments.binary or work / "binary"
        if not arguments.binary:
            tar = subprocess.Popen(["tar", "c", "-C", "/", "usr/lib"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            with open(binary, "wb") as out:
                shutil.copyfileobj(tar.stdout, out) if arguments.megabytes == 0 else out.write(tar.stdout.read(arguments.megabytes << 20))
            tar.kill()
            tar.wait()
        (work / "pieces").mkdir()
        pieces = 0
        with open(binary, "rb") as source:
            while piece := source.read(PIECE):
                (work / "pieces" / f"{pieces:08}").write_bytes(piece)
                pieces += 1
        clients = Clients(work, arguments.kafka_libs)
        with Node() as node:
            for kind, path, records in (("text", work / "text", lines), ("binary", binary, pieces)):
                with open(path, "rb") as source:
                    right = digest(source)
                print(f"{kind}: {right[1]} bytes in {records} records, sha256 {right[0]}" + (f" ({left_out} lines left out)" if kind == "text" else ""), flush=True)
                for into in ("mq", "kcat", "java", "franz-go"):
                    topic = f"{kind}-by-{into}"
                    try:
                        command, stdin = clients.writer(into, kind, node.address, topic, path)
                    except Skip as why:
                        print(f"skip    {kind} in by {into}: {why}", flush=True)
                        skipped += 1
                        continue
                    node.mq("topic", "create", topic, "-c", "max.message.bytes=2000000")
                    begin = time.monotonic()
                    with open(stdin or os.devnull, "rb") as source:
                        result = subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)
                    if result.returncode:
                        print(f"FAILED  {kind} in by {into}: {result.stderr.decode(errors='replace')[-1000:]}", flush=True)
                        failed += 1
                        continue
                    wrote = time.monotonic() - begin
                    for out in ("mq", "kcat", "java", "franz-go"):
                        try:
                            command = clients.reader(out, kind, node.address, topic, records)
                        except Skip as why:
                            print(f"skip    {kind} out by {out}: {why}", flush=True)
                            skipped += 1
                            continue
                        begin = time.monotonic()
                        with open(work / "errors", "wb") as errors:
                            process = subprocess.Popen(["timeout", str(LIMIT), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
                            got = digest(process.stdout)
                            process.wait()
                        good = process.returncode == 0 and got == right
                        passed, failed = passed + good, failed + (not good)
                        print(f"{'ok     ' if good else 'FAILED '} {kind} in by {into} ({wrote:.1f} s), out by {out} ({time.monotonic() - begin:.1f} s)"
                              + ("" if good else f": exit {process.returncode}, {got[1]} bytes, sha256 {got[0]} {(work / 'errors').read_text(errors='replace')[-600:]}"), flush=True)
                    node.mq("topic", "delete", topic, "--yes")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
