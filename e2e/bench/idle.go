package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// idleAgents is the number of agents whose memory is measured.
const idleAgents = 1000

// runIdle measures the memory of purser while agents that have paid once keep their connections.
func runIdle(ctx context.Context, b *bench) error {
	p, err := b.startPurser(ctx, filepath.Join(b.dir, "idle"))
	if err != nil {
		return err
	}
	defer p.stop()
	keys, err := p.newKeys(ctx, maxClients)
	if err != nil {
		return err
	}
	one, err := b.connect(ctx, b.through(p, keys), 1)
	if err != nil {
		return err
	}
	defer hangUp(one)
	if err := one[0].want(numbered("/paid", serials.Add(1), false), true); err != nil {
		return err
	}
	before, _ := memory(p.pid())
	agents, err := b.connect(ctx, b.through(p, keys), idleAgents)
	if err != nil {
		return err
	}
	defer hangUp(agents)
	for _, a := range agents {
		if err := a.want(numbered("/paid", serials.Add(1), false), true); err != nil {
			return err
		}
	}
	select { // garbage of the payments is collected, and given back in part
	case <-time.After(max(b.length, 5*time.Second)):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, all := memory(p.pid())
	if before == 0 || after == 0 {
		return errors.New("the system does not tell the memory of a process")
	}
	b.report.Idle = idle{Agents: idleAgents, StartMiB: before, OwnMiB: after, MiB: all}
	return nil
}
