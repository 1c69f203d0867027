package mcp

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/declines"
)

const quoteHelp = `Asks what a request would cost, to whom it would be paid, and whether the limits allow it. Pays nothing. The API
sees one request without a payment.`

// quoteInput holds the arguments of quote.
type quoteInput struct {
	URL    string `json:"url" jsonschema:"http or https URL"`
	Method string `json:"method,omitempty" jsonschema:"HTTP method; default: GET, with a body POST"`
	Body   string `json:"body,omitempty" jsonschema:"body of the request, as JSON text"`
	Tool   string `json:"tool,omitempty" jsonschema:"a tool of the MCP server at the URL, whose arguments the body has; one that costs nothing is called"`
}

// quoted is the result of quote.
type quoted struct {
	Verdict  string           `json:"verdict" jsonschema:"would pay, would be held, free, repeat, or not paid"`
	Why      string           `json:"why"`
	Status   int              `json:"status" jsonschema:"of the API's answer"`
	Price    string           `json:"price,omitempty"`
	PayTo    string           `json:"pay_to,omitempty"`
	Network  string           `json:"network,omitempty"`
	Wallet   string           `json:"wallet,omitempty" jsonschema:"the wallet that would pay"`
	Reason   string           `json:"reason,omitempty" jsonschema:"purser's word for why it would not pay"`
	Limit    string           `json:"limit,omitempty"`
	Left     string           `json:"left,omitempty" jsonschema:"what is left of the limit"`
	Resets   string           `json:"resets,omitempty" jsonschema:"when the limit begins anew"`
	Protocol string           `json:"protocol,omitempty" jsonschema:"in which the seller asks: x402 or mpp"`
	Rail     string           `json:"rail,omitempty" jsonschema:"by which the money would move"`
	Offers   []declines.Offer `json:"offers,omitempty" jsonschema:"all offers of the seller in the order of choice, with the reason why the others would not be paid"`
}

func addQuote(s *sdk.Server, o Options) {
	sdk.AddTool(s, &sdk.Tool{
		Name: "quote", Description: quoteHelp, Annotations: reads("Ask the price", true),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in quoteInput) (*sdk.CallToolResult, *quoted, error) {
		target, err := parseTarget(in.URL)
		if err != nil {
			return nil, nil, err
		}
		c, err := o.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		method := strings.ToUpper(cmp.Or(in.Method, map[bool]string{true: http.MethodPost}[in.Body != ""], http.MethodGet))
		ask := func() (*agent.Quote, error) { return c.DryRun(ctx, method, target, in.Body) }
		if in.Tool != "" {
			ask = func() (*agent.Quote, error) { return c.DryRunTool(ctx, target, in.Tool, in.Body) }
		}
		asked, err := ask()
		if err != nil {
			return nil, nil, err
		}
		q := &quoted{Status: asked.Status, Offers: asked.Offers, Limit: asked.Limit, Left: asked.Left, Resets: asked.Resets}
		q.Verdict, q.Why = asked.Verdict()
		if !asked.Pays && asked.Reason != "" {
			q.Reason, q.Why = asked.Reason, cmp.Or(asked.Detail, asked.Reason)
		}
		if of := asked.Quote; of != nil {
			q.Price, q.PayTo, q.Network, q.Wallet, q.Protocol, q.Rail = of.Price, of.PayTo, of.Network, of.Wallet, of.Protocol, of.Rail
		}
		res, err := asText(q)
		return res, q, err
	})
}
