package logs

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
)

type requestKey struct{}

// caddys is a handler that looks for the request in the context of a line, as Caddy's does.
type caddys struct {
	slog.Handler
	t *testing.T
}

func (c caddys) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(requestKey{}) != nil {
		c.t.Error("the handler sees the request")
	}
	return c.Handler.Handle(ctx, r)
}

// A line of a goroutine that outlives its request tells the payment, and is written without the request.
func TestLinesKeepTheirRequest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := WithPayment(slog.New(caddys{slog.NewTextHandler(&out, nil), t}))
	request := context.WithValue(pay.WithPayment(t.Context(), "p1"), requestKey{}, 1)
	log.InfoContext(context.WithoutCancel(request), "payment settled")
	if !strings.Contains(out.String(), "payment=p1") {
		t.Error(out.String())
	}
}
