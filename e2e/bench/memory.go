package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

const (
	memoryLoad  = 30 * time.Second
	memoryPause = time.Minute
)

// runMemory measures the memory of purser at the end of a load of 32 paying clients, and a minute
// later.
func runMemory(ctx context.Context, b *bench) error {
	p, err := b.startPurser(ctx, filepath.Join(b.dir, "memory"))
	if err != nil {
		return err
	}
	defer p.stop()
	keys, err := p.newKeys(ctx, maxClients)
	if err != nil {
		return err
	}
	f := &b.report.Footprint
	m, err := b.driveAgents(ctx, b.through(p, keys), "/paid", true, load{clients: maxClients, length: memoryLoad})
	if err != nil {
		return err
	}
	f.LoadMiB = m.OwnMiB
	select {
	case <-time.After(memoryPause):
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.LaterMiB, f.LaterAllMiB = memory(p.pid()); f.LaterMiB == 0 {
		return errors.New("the system does not tell the memory of a process")
	}
	return nil
}
