package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Follower writes log records where the newest configuration writes. A part that outlives a
// configuration logs through it, because a reload may close the old outputs.
type Follower struct {
	newest *atomic.Pointer[slog.Handler]
	// with applies the attributes and groups of this logger to the newest handler.
	with func(slog.Handler) slog.Handler
}

// NewFollower makes a handler that follows first.
func NewFollower(first slog.Handler) Follower {
	f := Follower{newest: new(atomic.Pointer[slog.Handler]), with: func(h slog.Handler) slog.Handler { return h }}
	f.Follow(first)
	return f
}

// Follow makes the handler write to another one from now on.
func (f Follower) Follow(h slog.Handler) { f.newest.Store(&h) }

func (f Follower) current() slog.Handler { return f.with(*f.newest.Load()) }

// Enabled implements [slog.Handler].
func (f Follower) Enabled(ctx context.Context, l slog.Level) bool { return f.current().Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (f Follower) Handle(ctx context.Context, r slog.Record) error { return f.current().Handle(ctx, r) }

// WithAttrs implements [slog.Handler].
func (f Follower) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Follower{newest: f.newest, with: func(h slog.Handler) slog.Handler { return f.with(h).WithAttrs(attrs) }}
}

// WithGroup implements [slog.Handler].
func (f Follower) WithGroup(name string) slog.Handler {
	return Follower{newest: f.newest, with: func(h slog.Handler) slog.Handler { return f.with(h).WithGroup(name) }}
}

var _ slog.Handler = Follower{}
