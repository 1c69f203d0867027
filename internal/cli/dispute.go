package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const disputeHelp = `
Writes a file that shows to others that a payment was made: the seller's terms, the request and
its hash, what was signed and sent, the status and hash of the seller's answer, and what the
chain says. Whoever gets it checks it without purser, by docs/dispute/verify.mjs.

    $ purser payments dispute 0199… --output dispute.json
    $ purser payments dispute 0199… --method POST --body request.json --output dispute.json

purser keeps a hash of the request. The file names method and body of a request without one;
for another request, --method and --body give them, and purser checks that they fit.

It is refused while the signature could still move the money: until two minutes after its
validity, unless the chain has confirmed the payment.`

func disputeCommand(payments *asking) {
	a := payments.sub("dispute ID", "Writes a file by which others check that a payment was made", disputeHelp, cobra.ExactArgs(1))
	out := a.Flags().String("output", "", "FILE to write, which must not exist (default: standard output)")
	method := a.Flags().String("method", "", "method of the request, such as POST")
	body := a.Flags().String("body", "", "FILE with the body of the request, of which the hash is written")
	a.ValidArgsFunction = a.env.paymentIDs(url.Values{})
	a.runs(func(args []string) error {
		if err := checkID("ID", args[0]); err != nil {
			return err
		}
		if *method != "" {
			a.ask.Set("method", *method)
		}
		if *body != "" {
			content, err := os.ReadFile(a.env.path(*body))
			if err != nil {
				return fmt.Errorf("--body: %w", err)
			}
			sum := sha256.Sum256(content)
			a.ask.Set("body", hex.EncodeToString(sum[:]))
		}
		var d adminapi.Dispute
		if err := a.client.call(a.Context(), http.MethodGet, "/purser/payments/"+url.PathEscape(args[0])+"/dispute?"+a.ask.Encode(), nil, &d); err != nil {
			return err
		}
		to, done, err := a.newFile("--output", *out)
		if err != nil {
			return err
		}
		return done(show(to, jsonForm{on: true}, d, nil))
	})
}
