package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/plainjson"
)

const quoteHelp = `
Sends a request through purser, unpaid, and says what purser would pay for it: how
much, to whom, and from which wallet. Or it says which limit is in the way. Nothing
is paid, signed or written. The seller sees one request without a payment.

    $ purser quote https://api.example.com/paid
    $ purser quote --key-file agent.key --task nightly https://api.example.com/paid
    $ purser quote --method POST --data '{"q":"rain"}' https://api.example.com/ask

It exits with 0 if purser would pay, or nothing is asked for, and with 1 otherwise.
Programs ask the same with the header Purser-Dry-Run: 1, or POST /v1/quote.`

func (env *Env) quoteCommand(c *cobra.Command) {
	flags := newAccessFlags(c, execTask)
	method := c.Flags().String("method", "", "method of the request (default: GET, with --data POST)")
	data := c.Flags().String("data", "", "body of the request, as JSON")
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
		asked := cmp.Or(*method, http.MethodGet)
		if *method == "" && *data != "" {
			asked = http.MethodPost
		}
		q, err := a.client(env.askTime()).DryRun(c.Context(), asked, target, *data)
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
		t.row("to", q.Quote.PayTo)
		t.row("on", q.Quote.Network)
		t.some("from", q.Quote.Wallet)
	}
	return t.Flush()
}
