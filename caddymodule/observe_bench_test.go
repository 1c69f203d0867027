package caddymodule

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Where nothing is traced, a stage and a request that is sent allocate nothing. It does
// not run beside others, whose allocations would count.
func TestTracingCostsNothingWithoutATrace(t *testing.T) {
	ctx := t.Context()
	header := map[string][]string{}
	if n := testing.AllocsPerRun(1000, func() {
		_, end := tracer{}.Stage(ctx, "settle", "p1")
		end(nil)
		propagate(ctx, header)
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if len(header) != 0 {
		t.Errorf("%v", header)
	}
}

func BenchmarkStageWithoutTrace(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, end := tracer{}.Stage(ctx, "settle", "p1")
		end(nil)
	}
}

func BenchmarkStageTraced(b *testing.B) {
	ctx, span := sdktrace.NewTracerProvider().Tracer("bench").Start(b.Context(), "request", trace.WithAttributes(attribute.String("a", "b")))
	defer span.End()
	b.ReportAllocs()
	for b.Loop() {
		_, end := tracer{}.Stage(ctx, "settle", "p1")
		end(nil)
	}
}

// BenchmarkLogOfAPayment measures the two lines of a payment at INFO, encoded as Caddy encodes them: begun and settled.
func BenchmarkLogOfAPayment(b *testing.B) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel)
	log := slog.New(zapslog.NewHandler(core, zapslog.WithName("purser")))
	row := &pay.Payment{
		ID: "01a201a1-11d1-7ceb-b3c6-718ea1e695b8", KeyID: "01a201a1-11d1-7ceb-b3c6-718ea1e695b8", Door: pay.DoorProxy, Task: "nightly", Host: "api.example.com:443",
		Currency: "USDC", Terms: pay.Terms{Network: "base", Amount: x402.NewAmount(10_000), Settlement: pay.SettleSeller},
	}
	const transaction = "0x0000000000000000000000000000000000000000000000000000000000000007"
	lines := func(log *slog.Logger, ctx context.Context) {
		log.InfoContext(ctx, "payment begun", "payment", row.ID, "key", row.KeyID, "door", string(row.Door), "task", row.Task, "host", row.Host,
			"amount", row.Terms.Amount.String(), "currency", row.Currency, "network", row.Terms.Network,
			"settlement", string(row.Terms.Settlement), "valid_before", row.ValidBefore())
		for what, level := range map[string]slog.Level{"payment settled": slog.LevelInfo, "payment confirmed": slog.LevelDebug} {
			log.Log(ctx, level, what, "payment", row.ID, "state", "settled", "transaction", transaction, "reason", "")
		}
	}
	traced, span := sdktrace.NewTracerProvider().Tracer("bench").Start(b.Context(), "request")
	defer span.End()
	for _, c := range []struct {
		name string
		log  *slog.Logger
		ctx  context.Context
	}{
		{"nothing", logs.WithPayment(slog.New(slog.DiscardHandler)), b.Context()},
		{"caddy", log.With("part", "pay"), b.Context()},
		{"purser", logs.WithPayment(log).With("part", "pay"), b.Context()},
		{"purser, traced", logs.WithPayment(log).With("part", "pay"), traced},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lines(c.log, c.ctx)
			}
		})
	}
}

// BenchmarkCaddyLogOfALine measures a line through the logger that Caddy gives a module.
func BenchmarkCaddyLogOfALine(b *testing.B) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: b.Context()})
	defer cancel()
	log := logs.WithPayment(ctx.Slogger()).With("part", "pay")
	b.ReportAllocs()
	for b.Loop() {
		log.DebugContext(b.Context(), "payment signed", "payment", "01a201a1-11d1-7ceb-b3c6-718ea1e695b8")
	}
}
