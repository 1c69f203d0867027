package caddymodule

import (
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/purserpay/purser/internal/logs"
)

// LogFormat writes logs as JSON, and for people where they go to a terminal: one line for each
// payment, and for each 402 that was not paid.
type LogFormat struct {
	zapcore.Encoder `json:"-"`
}

// CaddyModule returns the Caddy module information.
func (LogFormat) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.purser", New: func() caddy.Module { return new(LogFormat) }}
}

// Provision makes it write JSON.
func (f *LogFormat) Provision(ctx caddy.Context) error {
	inner := new(logging.JSONEncoder)
	f.Encoder = logs.NewQuiet(inner)
	return inner.Provision(ctx)
}

// ConfigureDefaultFormat makes it write for people if they read.
func (f *LogFormat) ConfigureDefaultFormat(to caddy.WriterOpener) error {
	if caddy.IsWriterStandardStream(to) && term.IsTerminal(int(os.Stderr.Fd())) {
		f.Encoder = logs.NewConsole()
	}
	return nil
}

// UnmarshalCaddyfile reads `purser`, which has no options.
func (f *LogFormat) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parseModule(d, f, nil) }

var (
	_ caddy.Provisioner                = (*LogFormat)(nil)
	_ caddy.ConfiguresFormatterDefault = (*LogFormat)(nil)
	_ caddyfile.Unmarshaler            = (*LogFormat)(nil)
)
