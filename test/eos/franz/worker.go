// A worker of the exactly-once loop on franz-go; README.md says what it does.
//
// The session aborts a transaction that a rebalance or an error has spoilt, and goes back to where the group has committed.
// Whatever is beyond mending ends the process, and the next one with the same id goes on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	startAgain            = 3
	patience              = 60 * time.Second // for one transaction, with all its retries
	transactionRecordsMax = 500
)

func main() {
	if len(os.Args) != 9 {
		fmt.Fprintf(os.Stderr, "usage: %s BROKERS GROUP INPUT OUTPUT OUTPUT-PARTITIONS ID ASSIGNOR careful|careless\n", os.Args[0])
		os.Exit(2)
	}
	stop, done := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer done()
	if err := run(stop, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "given up:", err)
		os.Exit(startAgain)
	}
}

func run(stop context.Context, words []string) error {
	brokers, group, input, output, id, assignor := words[0], words[1], words[2], words[3], words[5], words[6]
	outputPartitions, err := strconv.Atoi(words[4])
	if err != nil {
		return err
	}
	if words[7] == "careless" {
		return fmt.Errorf("a session is never careless")
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(brokers),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(input),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(10 * time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	switch assignor {
	case "server":
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	default:
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if assignor != "server" {
		options = append(options, kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	for stop.Err() == nil {
		if err := transact(stop, session, output, outputPartitions, id); err != nil {
			return err
		}
	}
	session.Close()
	return nil
}

func transact(stop context.Context, session *kgo.GroupTransactSession, output string, outputPartitions int, id string) error {
	fetches := session.PollRecords(stop, transactionRecordsMax)
	if fetches.NumRecords() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.Begin(); err != nil {
		return err
	}
	var wrongKey error
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		key, err := strconv.Atoi(string(record.Key))
		if err != nil {
			wrongKey = err
			return
		}
		session.Produce(ctx, &kgo.Record{
			Topic:     output,
			Partition: int32(key % outputPartitions),
			Key:       record.Key,
			Value:     append(append(append([]byte{}, record.Value...), '@'), id...),
		}, promise.Promise())
	})
	if wrongKey != nil {
		return wrongKey
	}
	failed := promise.Err()
	committed, err := session.End(ctx, kgo.TransactionEndTry(failed == nil))
	if err != nil {
		return err
	}
	if !committed {
		fmt.Fprintln(os.Stderr, "aborted:", failed)
	}
	return nil
}
