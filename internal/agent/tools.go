package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/internal/buildinfo"
)

// Tool is one of a server of the Model Context Protocol.
type Tool struct {
	Name        string `json:"name"`
	Price       string `json:"price,omitempty"` // that the server names, such as 0.01 USD; a quote tells the real one
	Description string `json:"description,omitempty"`
}

// Members of _meta in a list of tools, by Cloudflare's agents, and in purser's answer to a call.
const (
	metaPrice    = "agents-x402/priceUSD"
	metaDeclined = "purser/declined"
)

// Tools lists the tools of a server. It asks through the proxy, and calls none of them.
func (c *Client) Tools(ctx context.Context, target *url.URL) (list []Tool, err error) {
	err = c.session(ctx, target, func(s *sdk.ClientSession) error {
		for tool, err := range s.Tools(ctx, nil) {
			if err != nil {
				return err
			}
			one := Tool{Name: tool.Name, Description: cmp.Or(tool.Title, tool.Description)}
			switch price := tool.Meta[metaPrice].(type) {
			case float64:
				one.Price = strconv.FormatFloat(price, 'f', -1, 64) + " USD"
			case string:
				one.Price = price + " USD"
			}
			list = append(list, one)
		}
		return nil
	})
	return list, err
}

// DryRunTool asks a server through the proxy, unpaid, what purser would pay for a call of a tool. A tool that costs
// nothing is called. The arguments are a JSON object, or empty.
func (c *Client) DryRunTool(ctx context.Context, target *url.URL, name, arguments string) (*Quote, error) {
	q := &Quote{URL: target.String(), Status: http.StatusOK}
	err := c.session(ctx, target, func(s *sdk.ClientSession) error {
		result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(cmp.Or(arguments, "{}"))})
		if err != nil {
			return err
		}
		told, declined := result.Meta[metaDeclined]
		if !declined {
			return nil
		}
		q.Status = http.StatusPaymentRequired
		text, err := json.Marshal(told)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, q); err != nil {
			return fmt.Errorf("reading purser's answer: %w", err)
		}
		q.Pays = q.Reason == "dry-run"
		return nil
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// session opens a session with a server, in which nothing is paid.
func (c *Client) session(ctx context.Context, target *url.URL, in func(*sdk.ClientSession) error) error {
	through := &http.Client{Timeout: c.Timeout, Transport: dry{c.through()}, CheckRedirect: unfollowed}
	info, _ := debug.ReadBuildInfo()
	client := sdk.NewClient(&sdk.Implementation{Name: "purser", Version: buildinfo.Version(info)}, nil)
	s, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: target.String(), HTTPClient: through, MaxRetries: -1}, nil)
	if err != nil {
		return fmt.Errorf("quote: opening a session of MCP: %w", c.unanswered(err))
	}
	defer func() { _ = s.Close() }()
	if err := in(s); err != nil {
		return fmt.Errorf("quote: %w", c.unanswered(err))
	}
	return nil
}

// dry marks requests as ones that buy nothing.
type dry struct{ next *http.Transport }

func (d dry) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Purser-Dry-Run", "1")
	return d.next.RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (d dry) CloseIdleConnections() { d.next.CloseIdleConnections() }
