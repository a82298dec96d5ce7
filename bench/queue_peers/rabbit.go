package main

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitChannel opens a channel on a quorum queue, which is on disk before a confirm.
func rabbitChannel(l load) (*amqp.Connection, *amqp.Channel) {
	connection, err := amqp.Dial(l.url)
	must(err)
	channel, err := connection.Channel()
	must(err)
	_, err = channel.QueueDeclare(queue, true, false, false, false,
		amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	must(err)
	return connection, channel
}

func rabbitPublish(l load) figures {
	connection, channel := rabbitChannel(l)
	defer connection.Close()
	must(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, l.inFlight))
	sent := make([]time.Time, l.messages+1) // by delivery tag, which counts from 1
	latencies := make([]time.Duration, 0, l.messages)
	room := make(chan struct{}, l.inFlight)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range l.messages {
			confirm := <-confirms
			if !confirm.Ack {
				must(context.Canceled)
			}
			latencies = append(latencies, time.Since(sent[confirm.DeliveryTag]))
			<-room
		}
	}()
	body := make([]byte, l.bytes)
	begin := time.Now()
	for tag := 1; tag <= l.messages; tag++ {
		room <- struct{}{}
		sent[tag] = time.Now()
		must(channel.PublishWithContext(context.Background(), "", queue, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}))
	}
	<-done
	return l.figures(begin, latencies)
}

func rabbitConsume(l load) figures {
	connection, channel := rabbitChannel(l)
	defer connection.Close()
	must(channel.Qos(l.inFlight, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	begin := time.Now()
	for i := 1; i <= l.messages; i++ {
		delivery := <-deliveries
		if i%(l.inFlight/4) == 0 || i == l.messages { // one acknowledgement for a part of the window
			must(delivery.Ack(true))
		}
	}
	return l.figures(begin, nil)
}
