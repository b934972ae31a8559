import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A worker of the exactly-once loop on Kafka's own client; README.md says what it does.
 *
 * What a poll returns is one transaction. One that fails is aborted, and what it has read is read again from where the group
 * has committed. Whatever is beyond mending ends the process, and the next one with the same id goes on.
 */
public final class Worker {
  private static final int START_AGAIN = 3;
  private static final Duration PATIENCE = Duration.ofSeconds(60); // for one call, with all its retries

  private static final int CARELESS_TRANSACTIONS = 10; // that a careless worker lives

  private final String input;
  private final String output;
  private final int outputPartitions;
  private final String id;
  private final boolean careless; // commits offsets beside the transaction, and dies between the two: what a checker has to find
  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private int committed = 0; // transactions
  private volatile boolean stopAsked = false;

  private Worker(String brokers, String group, String input, String output, int outputPartitions, String id, String assignor, boolean careless) {
    this.input = input;
    this.output = output;
    this.outputPartitions = outputPartitions;
    this.id = id;
    this.careless = careless;
    Map<String, Object> consuming = new HashMap<>(Map.of(
        "bootstrap.servers", brokers,
        "group.id", group,
        "enable.auto.commit", false,
        "isolation.level", "read_committed",
        "auto.offset.reset", "earliest",
        "max.poll.records", 500,
        "key.deserializer", StringDeserializer.class,
        "value.deserializer", StringDeserializer.class));
    if (assignor.equals("server")) {
      consuming.put("group.protocol", "consumer");
    } else {
      String name = assignor.equals("range") ? "RangeAssignor" : "CooperativeStickyAssignor";
      consuming.put("partition.assignment.strategy", List.of("org.apache.kafka.clients.consumer." + name));
      consuming.put("session.timeout.ms", 3000);
      consuming.put("heartbeat.interval.ms", 500);
    }
    consumer = new KafkaConsumer<>(consuming);
    producer = new KafkaProducer<>(Map.of(
        "bootstrap.servers", brokers,
        "transactional.id", id,
        "transaction.timeout.ms", 10000,
        "delivery.timeout.ms", 30000,
        "request.timeout.ms", 10000,
        "max.block.ms", PATIENCE.toMillis(),
        "key.serializer", StringSerializer.class,
        "value.serializer", StringSerializer.class));
  }

  private void run() {
    producer.initTransactions();
    consumer.subscribe(List.of(input));
    while (!stopAsked) {
      ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
      if (!records.isEmpty()) transact(records);
    }
    producer.close(PATIENCE);
    consumer.close();
  }

  private void transact(ConsumerRecords<String, String> records) {
    try {
      producer.beginTransaction();
      for (ConsumerRecord<String, String> record : records) {
        int partition = Integer.parseInt(record.key()) % outputPartitions;
        producer.send(new ProducerRecord<>(output, partition, record.key(), record.value() + "@" + id));
      }
      if (!careless) producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
      producer.commitTransaction();
    } catch (KafkaException failed) {
      System.err.println("aborted: " + failed);
      producer.abortTransaction(); // what is not to be mended says so here, too
      rewind(records);
      return;
    }
    if (careless) {
      if (++committed % CARELESS_TRANSACTIONS == 0) throw new KafkaException("between the two commits");
      consumer.commitSync(records.nextOffsets());
    }
  }

  private void rewind(ConsumerRecords<String, String> records) {
    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), PATIENCE);
    for (TopicPartition partition : records.partitions()) {
      if (!consumer.assignment().contains(partition)) continue; // somebody else's now
      OffsetAndMetadata offset = committed.get(partition);
      if (offset == null) {
        consumer.seekToBeginning(List.of(partition));
      } else {
        consumer.seek(partition, offset);
      }
    }
  }

  public static void main(String[] words) {
    if (words.length != 8) {
      System.err.println("usage: Worker BROKERS GROUP INPUT OUTPUT OUTPUT-PARTITIONS ID ASSIGNOR careful|careless");
      System.exit(2);
    }
    Worker worker = new Worker(words[0], words[1], words[2], words[3], Integer.parseInt(words[4]), words[5], words[6], words[7].equals("careless"));
    Thread working = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      worker.stopAsked = true;
      try {
        working.join(PATIENCE.toMillis());
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
      }
    }));
    try {
      worker.run();
    } catch (KafkaException failure) {
      System.err.println("given up: " + failure);
      Runtime.getRuntime().halt(START_AGAIN); // closing would wait for brokers that may be away
    }
    Runtime.getRuntime().halt(0); // also when SIGTERM has ended it
  }
}
