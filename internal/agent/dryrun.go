package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
)

// maxQuote bounds what is read of an answer.
const maxQuote = 1 << 20

// Quote holds the words of a dry run. Its members are those of the 402's body (docs/troubleshooting.md).
type Quote struct {
	URL    string `json:"url"`
	Status int    `json:"status"` // of the answer
	Pays   bool   `json:"pays"`
	Quote  *Offer `json:"quote,omitempty"`
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Left   string `json:"left,omitempty"`
	Resets string `json:"resets,omitempty"`
	// Offers has all of the 402, in the order of choice.
	Offers []declines.Offer `json:"offers,omitempty"`
}

// Offer holds what purser would sign.
type Offer struct {
	Amount  string `json:"amount"` // in the smallest unit
	Price   string `json:"price"`  // for people
	Network string `json:"network"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Wallet  string `json:"wallet,omitempty"`
	Gas     string `json:"gas,omitempty"` // the most that gas costs beside the price, for people
	pay.Means
}

// DryRun asks the seller through the proxy, unpaid, what purser would pay. The body is JSON, or empty.
func (c *Client) DryRun(ctx context.Context, method string, target *url.URL, body string) (*Quote, error) {
	r, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	r.Header.Set("Purser-Dry-Run", "1")
	r.Header.Set("Accept", "application/json")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxQuote))
	if err != nil {
		return nil, fmt.Errorf("quote: reading the answer: %w", err)
	}
	q := new(Quote)
	q.Reason = resp.Header.Get("Purser-Declined")
	if q.Reason != "" {
		_ = json.Unmarshal(text, q) // the headers say the rest
	}
	q.URL, q.Status, q.Detail = target.String(), resp.StatusCode, cmp.Or(q.Detail, resp.Header.Get("Purser-Declined-Detail"))
	q.Pays = q.Reason == "dry-run"
	return q, nil
}

// Verdict says for people what purser would do.
func (q *Quote) Verdict() (verdict, why string) {
	switch {
	case q.Status != http.StatusPaymentRequired:
		return "free", fmt.Sprintf("the seller answered %d and asks for no payment", q.Status)
	case q.Reason == "":
		return "not paid", "the 402 has no challenge of x402 or MPP that purser can read, or its HTTPS is not opened"
	case q.Pays && q.Quote == nil: // a repeat
		return "repeat", cmp.Or(q.Detail, "the request repeats an earlier one, and is not paid again")
	case q.Pays:
		return "would pay", q.Quote.Price
	}
	if q.Reason == "approval-needed" {
		return "would be held", q.Reason
	}
	return "not paid", q.Reason
}
