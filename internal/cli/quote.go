package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/words"
)

const quoteHelp = `
Sends a request through purser, unpaid, and says what purser would pay for it: how
much, to whom, and from which wallet. Or it says which limit is in the way. Nothing
is paid, signed or written. The seller sees one request without a payment. If the
402 has several offers, it lists all in the order of choice (PURSER_RAILS), and says why
each of the others would not be paid.

    $ purser quote https://api.example.com/paid
    $ purser quote --key-file agent.key --task nightly https://api.example.com/paid
    $ purser quote --method POST --data '{"q":"rain"}' https://api.example.com/ask

Of a server of the Model Context Protocol it lists the tools, with the prices that the
server names, or asks what a call would cost. A tool that costs nothing is called then.

    $ purser quote --tools https://tools.example.com/mcp
    $ purser quote --tool search --data '{"q":"rain"}' https://tools.example.com/mcp

It exits with 0 if purser would pay, or nothing is asked for, and with 1 otherwise.
Programs ask the same with the header Purser-Dry-Run: 1, or POST /v1/quote.`

func (env *Env) quoteCommand(c *cobra.Command) {
	flags := newAccessFlags(c, execTask)
	method := c.Flags().String("method", "", "method of the request (default: GET, with --data POST)")
	data := c.Flags().String("data", "", "body of the request, as JSON")
	tool := c.Flags().String("tool", "", "tool of an MCP server; --data has its arguments")
	tools := c.Flags().Bool("tools", false, "list the tools of an MCP server")
	c.MarkFlagsMutuallyExclusive("tool", "tools")
	c.MarkFlagsMutuallyExclusive("tools", "data")
	c.MarkFlagsMutuallyExclusive("tool", "method")
	c.MarkFlagsMutuallyExclusive("tools", "method")
	asJSON := c.Flags().Bool("json", false, printsJSON)
	c.Args = cobra.ExactArgs(1)
	Run(c, func(c *cobra.Command, args []string) error {
		target, err := url.Parse(args[0])
		if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
			return fmt.Errorf("quote: %q is not an http or https URL", args[0])
		}
		a, err := env.findAccess(c.Context(), c, flags)
		if err != nil {
			return err
		}
		if *tools {
			list, err := a.client(env.askTime()).Tools(c.Context(), target)
			if err != nil {
				return err
			}
			if *asJSON {
				return plainjson.Encoder(c.OutOrStdout()).Encode(list)
			}
			return printTools(list, c.OutOrStdout())
		}
		asked := cmp.Or(*method, http.MethodGet)
		if *method == "" && *data != "" {
			asked = http.MethodPost
		}
		ask := func() (*agent.Quote, error) { return a.client(env.askTime()).DryRun(c.Context(), asked, target, *data) }
		if *tool != "" {
			ask = func() (*agent.Quote, error) {
				return a.client(env.askTime()).DryRunTool(c.Context(), target, *tool, *data)
			}
		}
		q, err := ask()
		if err != nil {
			return err
		}
		if *asJSON {
			err = plainjson.Encoder(c.OutOrStdout()).Encode(q)
		} else {
			err = printQuote(q, c.OutOrStdout())
		}
		if err == nil && !q.Pays && q.Status == http.StatusPaymentRequired {
			err = &Exit{Status: 1}
		}
		return err
	})
}

// printTools lists the tools of a server.
func printTools(list []agent.Tool, w io.Writer) error {
	t := newTable(w)
	t.row("TOOL", "PRICE", "")
	for _, tool := range list {
		t.row(words.Of(tool.Name), cmp.Or(words.Of(tool.Price), "–"), words.Truncate(words.Of(tool.Description), 60))
	}
	return t.Flush()
}

// printQuote tells people.
func printQuote(q *agent.Quote, w io.Writer) error {
	t := newTable(w)
	verdict, why := q.Verdict()
	t.row(verdict, why)
	if !q.Pays && q.Status == http.StatusPaymentRequired {
		t.some("because", q.Detail)
	}
	if q.Quote != nil {
		if !q.Pays {
			t.row("price", q.Quote.Price)
		}
		if q.Quote.Gas != "" {
			t.row("gas", "up to "+q.Quote.Gas+" beside the price")
		}
		t.row("to", q.Quote.PayTo)
		t.row("on", q.Quote.Network)
		t.some("from", q.Quote.Wallet)
		t.row("asked for", q.Quote.Words())
	}
	if err := t.Flush(); err != nil || len(q.Offers) < 2 {
		return err
	}
	_, _ = fmt.Fprintln(w)
	t = newTable(w)
	t.row("OFFER", "RAIL", "NETWORK", "PRICE", "TO", "ENDS (UTC)", "")
	for _, o := range q.Offers {
		why := "would be paid"
		if !o.Pays {
			why = strings.TrimSuffix(o.Reason+": "+words.Of(o.Detail), ": ")
		}
		t.row(o.Spoken(), o.Rail, words.Of(o.Network), cmp.Or(o.Price, o.Amount+" of "+o.Asset), o.PayTo, cmp.Or(o.Expires, "–"), why)
	}
	return t.Flush()
}
