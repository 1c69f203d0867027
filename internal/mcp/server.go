// Package mcp serves a running purser to agents that speak the Model Context Protocol: tools that buy,
// ask a price, and read the own limits and books. It is a client of purser with one API key, and has no
// powers beyond those of that key.
package mcp

import (
	"context"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/plainjson"
)

// DefaultMaxBody bounds the body of an answer that an agent gets, in bytes.
const DefaultMaxBody = 256 << 10

// Options configures a server.
type Options struct {
	// Connect finds purser and the key, at each call: purser may have been restarted, and its root or
	// the key replaced.
	Connect func(ctx context.Context) (*agent.Client, error)
	MaxBody int // bytes of an answer's body; 0: DefaultMaxBody
	Version string

	waiting *waiting // HTTP clients; nil: there are none
}

const instructions = `purser pays for HTTP APIs that answer 402 Payment Required, by the x402 protocol, in USDC.
fetch_paid makes one HTTP request, and pays if the API asks for money and the limits allow it. quote says what a request
would cost, and pays nothing. limits says what may be spent, and what is left. A request that is not paid comes back as
an error with the reason: do not repeat it unless the reason says that time or a change would help. Amounts are USDC.`

// NewServer returns a server with purser's tools. Calls under way are cancelled when the context ends,
// and when the answer can reach no client any more: an answer that purser believes delivered would let a
// repeat be paid again.
func NewServer(ctx context.Context, o Options) *sdk.Server {
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	s := sdk.NewServer(
		&sdk.Implementation{Name: "purser", Title: "purser", Version: o.Version},
		// Without capabilities of its own it would promise logs.
		&sdk.ServerOptions{Instructions: instructions, Capabilities: new(sdk.ServerCapabilities)},
	)
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(call context.Context, method string, r sdk.Request) (sdk.Result, error) {
			call, cancel := context.WithCancel(call)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			if extra := r.GetExtra(); o.waiting != nil && extra != nil && method == "tools/call" {
				defer context.AfterFunc(o.waiting.client(extra.Header), cancel)()
			}
			return next(call, method, r)
		}
	})
	addFetch(s, o)
	addQuote(s, o)
	addBooks(s, o)
	return s
}

// ServeStdio serves one client on a pair of streams, and returns when the input or the context ends.
func ServeStdio(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := NewServer(ctx, o).Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(&ending{in, cancel}), Writer: nopCloser{out}})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ending reads from an input, and tells when that ends.
type ending struct {
	io.Reader
	ended func()
}

func (e *ending) Read(p []byte) (n int, err error) {
	if n, err = e.Reader.Read(p); err != nil {
		e.ended()
	}
	return n, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// asText is a tool's result as one block of JSON, in which markup stays readable.
func asText(v any) (*sdk.CallToolResult, error) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text) + "\n"}}}, nil
}

// reads marks a tool that spends nothing and changes nothing. asksSellers: sellers are asked.
func reads(title string, asksSellers bool) *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &asksSellers}
}
