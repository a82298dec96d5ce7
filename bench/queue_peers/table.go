package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// A queue in a table of PostgreSQL, as such queues are usually written: producers insert a batch in
// one statement, workers claim a batch by SKIP LOCKED, and the results are stored in the transaction
// that ends their jobs. Bodies of jobs and results pass between client and server, as a queue's do.
const (
	tableCreate = `
CREATE TABLE queue (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'available',
    priority int NOT NULL DEFAULT 1, attempt int NOT NULL DEFAULT 0, kind text NOT NULL,
    args bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
    attempted_at timestamptz, finalized_at timestamptz);
CREATE INDEX ON queue (state, priority, id);
CREATE TABLE results (id bigserial PRIMARY KEY, job bigint NOT NULL, body bytea NOT NULL)`
	tableInsert = `INSERT INTO queue (kind, args) SELECT 'model', unnest($1::bytea[])`
	tableClaim  = `
WITH next AS (SELECT id FROM queue WHERE state = 'available' ORDER BY priority, id LIMIT $1
    FOR UPDATE SKIP LOCKED)
UPDATE queue q SET state = 'running', attempt = attempt + 1, attempted_at = now()
    FROM next WHERE q.id = next.id RETURNING q.id, q.args`
	tableResult = `INSERT INTO results (job, body) SELECT unnest($1::bigint[]), unnest($2::bytea[])`
	tableEnd    = `UPDATE queue SET state = 'completed', finalized_at = now() WHERE id = ANY($1)`
)

const tableClients = 4

// bodies gives as many bodies as fit a batch.
func (l load) bodies(count int) [][]byte {
	all := make([][]byte, count)
	for i := range all {
		all[i] = make([]byte, l.bytes)
	}
	return all
}

// inTable runs `work` on connections of its own, until a call of it says that nothing is left.
func inTable(l load, work func(context.Context, *pgx.Conn) bool) figures {
	begin := time.Now()
	var clients sync.WaitGroup
	for range tableClients {
		clients.Go(func() {
			ctx := context.Background()
			connection, err := pgx.Connect(ctx, l.url)
			must(err)
			defer connection.Close(ctx)
			for work(ctx, connection) {
			}
		})
	}
	clients.Wait()
	return l.figures(begin, nil)
}

// tableSubmit inserts batches of a hundred jobs.
func tableSubmit(l load) figures {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, l.url)
	must(err)
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, tableCreate)
	must(err)
	const batch = 100
	args := l.bodies(batch)
	var left atomic.Int64
	left.Store(int64(l.messages))
	return inTable(l, func(ctx context.Context, connection *pgx.Conn) bool {
		if left.Add(-batch) < 0 {
			return false
		}
		_, err := connection.Exec(ctx, tableInsert, args)
		must(err)
		return true
	})
}

// tableWork claims batches of 64 jobs, and ends each with a result.
func tableWork(l load) figures {
	const batch = 64
	results := l.bodies(batch)
	var ended atomic.Int64
	return inTable(l, func(ctx context.Context, connection *pgx.Conn) bool {
		rows, err := connection.Query(ctx, tableClaim, batch)
		must(err)
		var ids []int64
		var id int64
		var args []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &args}, func() error {
			ids = append(ids, id)
			return nil
		})
		must(err)
		if len(ids) == 0 {
			return false
		}
		must(pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
			var both pgx.Batch
			both.Queue(tableResult, ids, results[:len(ids)])
			both.Queue(tableEnd, ids)
			return tx.SendBatch(ctx, &both).Close()
		}))
		return ended.Add(int64(len(ids))) < int64(l.messages)
	})
}
