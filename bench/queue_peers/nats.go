package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func natsStream(l load) (*nats.Conn, jetstream.JetStream, jetstream.Stream) {
	connection, err := nats.Connect(l.url)
	must(err)
	js, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(l.inFlight))
	must(err)
	stream, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
		Name: queue, Subjects: []string{queue}, Storage: jetstream.FileStorage})
	must(err)
	return connection, js, stream
}

func natsPublish(l load) figures {
	connection, js, _ := natsStream(l)
	defer connection.Close()
	type sent struct {
		at  time.Time
		ack jetstream.PubAckFuture
	}
	window := make(chan sent, l.inFlight)
	latencies := make([]time.Duration, 0, l.messages)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for one := range window {
			select {
			case <-one.ack.Ok():
				latencies = append(latencies, time.Since(one.at))
			case err := <-one.ack.Err():
				must(err)
			}
		}
	}()
	body := make([]byte, l.bytes)
	begin := time.Now()
	for range l.messages {
		at := time.Now()
		ack, err := js.PublishAsync(queue, body) // waits while too many are in flight
		must(err)
		window <- sent{at, ack}
	}
	close(window)
	<-done
	return l.figures(begin, latencies)
}

func natsConsume(l load) figures {
	connection, _, stream := natsStream(l)
	defer connection.Close()
	consumer, err := stream.CreateOrUpdateConsumer(context.Background(), jetstream.ConsumerConfig{
		Durable: queue, AckPolicy: jetstream.AckAllPolicy, MaxAckPending: l.inFlight})
	must(err)
	begin := time.Now()
	messages, err := consumer.Messages(jetstream.PullMaxMessages(l.inFlight))
	must(err)
	defer messages.Stop()
	for i := 1; i <= l.messages; i++ {
		message, err := messages.Next()
		must(err)
		if i%(l.inFlight/4) == 0 || i == l.messages {
			must(message.DoubleAck(context.Background()))
		}
	}
	return l.figures(begin, nil)
}
