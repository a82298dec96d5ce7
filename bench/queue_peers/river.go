package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River, by its own library: its migrations make its tables and all of their indexes.
const riverConnections = 8

type riverJob struct {
	Text string `json:"text"`
}

func (riverJob) Kind() string { return "model" }

// A riverWorker ends each job at once. River stores what it records in the update that ends a job.
type riverWorker struct {
	river.WorkerDefaults[riverJob]
	result riverJob
}

func (w *riverWorker) Work(ctx context.Context, _ *river.Job[riverJob]) error {
	return river.RecordOutput(ctx, w.result)
}

// riverSubmit inserts batches by COPY.
func riverSubmit(l load) figures {
	ctx := context.Background()
	pool := l.pool(clients)
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	client, err := river.NewClient(driver, &river.Config{})
	must(err)
	jobs := make([]river.InsertManyParams, submitBatch)
	for i := range jobs {
		jobs[i].Args = riverJob{l.text()}
	}
	return l.submits(func(ctx context.Context) error {
		_, err := client.InsertManyFast(ctx, jobs)
		return err
	})
}

// riverWork measures until River says of the last job that its end is stored.
func riverWork(l load) figures {
	ctx := context.Background()
	pool := l.pool(riverConnections)
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{result: riverJob{l.text()}})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Workers: workers,
		FetchCooldown: river.FetchCooldownMin,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: l.inFlight}}})
	must(err)
	ends, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * l.messages,
		Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
	defer cancel()
	begin := time.Now()
	must(client.Start(ctx))
	for range l.messages {
		if end := <-ends; end.Kind != river.EventKindJobCompleted {
			must(fmt.Errorf("River's job %d has failed", end.Job.ID))
		}
	}
	measured := l.figures(begin, nil)
	must(client.Stop(ctx))
	return measured
}
