package caddymodule

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// follower is a log handler that writes where the newest configuration writes. What
// outlives a configuration logs through it, because a reload may close the old outputs.
type follower struct {
	newest *atomic.Pointer[slog.Handler]
	// with is what With and WithGroup asked for, applied to whatever is newest.
	with func(slog.Handler) slog.Handler
}

func newFollower(first slog.Handler) follower {
	f := follower{newest: new(atomic.Pointer[slog.Handler]), with: func(h slog.Handler) slog.Handler { return h }}
	f.follow(first)
	return f
}

func (f follower) follow(h slog.Handler) { f.newest.Store(&h) }

func (f follower) current() slog.Handler { return f.with(*f.newest.Load()) }

func (f follower) Enabled(ctx context.Context, l slog.Level) bool { return f.current().Enabled(ctx, l) }

func (f follower) Handle(ctx context.Context, r slog.Record) error { return f.current().Handle(ctx, r) }

func (f follower) WithAttrs(attrs []slog.Attr) slog.Handler {
	return follower{newest: f.newest, with: func(h slog.Handler) slog.Handler { return f.with(h).WithAttrs(attrs) }}
}

func (f follower) WithGroup(name string) slog.Handler {
	return follower{newest: f.newest, with: func(h slog.Handler) slog.Handler { return f.with(h).WithGroup(name) }}
}

var _ slog.Handler = follower{}
