// Puts the loads of queue_load on RabbitMQ, NATS JetStream and queues in PostgreSQL, as their users
// would: publishes with confirms, consumes with acknowledgements. Prints one line of JSON.
//
//	queue_peers rabbit-publish amqp://guest:guest@127.0.0.1:5672/ --messages 100000 --in-flight 2000
//	queue_peers nats-consume nats://127.0.0.1:4222 --messages 100000 --in-flight 256
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

type load struct {
	url                       string
	messages, inFlight, bytes int
}

// figures are what a load measured. Latency is from a publish to its confirm; consumers have none.
type figures struct {
	Load      string  `json:"load"`
	Messages  int     `json:"messages"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
}

const queue = "queue_load" // the name of the queue, stream, subject and consumer

func (l load) figures(begin time.Time, latencies []time.Duration) figures {
	seconds := time.Since(begin).Seconds()
	return figures{Messages: l.messages, Seconds: seconds, PerSecond: float64(l.messages) / seconds,
		P50: percentile(latencies, 0.5), P99: percentile(latencies, 0.99)}
}

func percentile(values []time.Duration, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	return 1e3 * values[int(p*float64(len(values)-1))].Seconds()
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	loads := map[string]func(load) figures{
		"rabbit-publish": rabbitPublish, "rabbit-consume": rabbitConsume,
		"nats-publish": natsPublish, "nats-consume": natsConsume,
		"river-submit": riverSubmit, "river-work": riverWork,
		"pgmq-submit": pgmq.submit, "pgmq-work": pgmq.work,
		"table-submit": plainTable.submit, "table-work": plainTable.work,
	}
	if len(os.Args) < 3 || loads[os.Args[1]] == nil {
		names := strings.Join(slices.Sorted(maps.Keys(loads)), "|")
		log.Fatal("usage: queue_peers " + names + " URL [options]")
	}
	l := load{url: os.Args[2]}
	options := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	options.IntVar(&l.messages, "messages", 100_000, "how many")
	options.IntVar(&l.inFlight, "in-flight", 2_000, "messages not yet confirmed or acknowledged")
	options.IntVar(&l.bytes, "bytes", 1_024, "size of a message")
	must(options.Parse(os.Args[3:]))
	measured := loads[os.Args[1]](l)
	measured.Load = os.Args[1]
	line, err := json.Marshal(measured)
	must(err)
	fmt.Println(string(line))
}
