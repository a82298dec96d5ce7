package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What the queues in PostgreSQL share: producers insert batches, each durable when it returns, and
// bodies of jobs and results pass between client and server, as a queue's do.
const (
	clients     = 4   // that submit, and workers of a tableQueue; each has a connection
	submitBatch = 100 // jobs of an insert
)

// text is what a job and a result hold. queue_load's prompts, too, are one letter over and over.
func (l load) text() string { return strings.Repeat("x", l.bytes) }

func (l load) pool(connections int) *pgxpool.Pool {
	settings, err := pgxpool.ParseConfig(l.url)
	must(err)
	settings.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	must(err)
	return pool
}

// byClients runs `work` on several goroutines, on each until a call says that nothing is left.
func byClients(work func() bool) {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for work() {
			}
		})
	}
	all.Wait()
}

// submits measures how fast clients insert batches of jobs.
func (l load) submits(insert func(context.Context) error) figures {
	begin := time.Now()
	var left atomic.Int64
	left.Store(int64(l.messages))
	byClients(func() bool {
		if left.Add(-submitBatch) < 0 {
			return false
		}
		must(insert(context.Background()))
		return true
	})
	return l.figures(begin, nil)
}

// A tableQueue is a queue in tables, in statements.
type tableQueue struct {
	create string
	insert string // jobs with the bodies $1
	claim  string // at most $1 jobs, by SKIP LOCKED; gives their ids and bodies
	store  string // the results $2 of the jobs $1
	end    string // of the jobs $1, in the transaction of `store`
	body   func(text string) []byte
}

func (q tableQueue) bodies(l load, count int) [][]byte {
	all, body := make([][]byte, count), q.body(l.text())
	for i := range all {
		all[i] = body
	}
	return all
}

func (q tableQueue) submit(l load) figures {
	pool := l.pool(clients)
	defer pool.Close()
	_, err := pool.Exec(context.Background(), q.create)
	must(err)
	jobs := q.bodies(l, submitBatch)
	return l.submits(func(ctx context.Context) error {
		_, err := pool.Exec(ctx, q.insert, jobs)
		return err
	})
}

// work claims batches of jobs, together as many as are in flight, and ends each with its results.
func (q tableQueue) work(l load) figures {
	ctx := context.Background()
	pool := l.pool(clients)
	defer pool.Close()
	batch := l.inFlight / clients
	results := q.bodies(l, batch)
	var ended atomic.Int64
	begin := time.Now()
	byClients(func() bool {
		ids := q.claimed(ctx, pool, batch)
		if len(ids) == 0 {
			return false
		}
		must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var both pgx.Batch
			both.Queue(q.store, ids, results[:len(ids)])
			both.Queue(q.end, ids)
			return tx.SendBatch(ctx, &both).Close()
		}))
		return ended.Add(int64(len(ids))) < int64(l.messages)
	})
	if ended.Load() < int64(l.messages) {
		must(fmt.Errorf("the queue was empty after %d of %d jobs", ended.Load(), l.messages))
	}
	return l.figures(begin, nil)
}

func (q tableQueue) claimed(ctx context.Context, pool *pgxpool.Pool, most int) []int64 {
	rows, err := pool.Query(ctx, q.claim, most)
	must(err)
	var ids []int64
	var id int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &body}, func() error {
		ids = append(ids, id)
		return nil
	})
	must(err)
	return ids
}
