package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// Bounds on asking for a payment: purser may wait a minute for a person.
const (
	payTries = 3
	payTime  = 75 * time.Second // of one try
)

// payPauses lie between the tries.
var payPauses = [payTries - 1]time.Duration{250 * time.Millisecond, time.Second}

// Purchase names one thing to pay for.
type Purchase struct {
	Terms          json.RawMessage // of the seller, as they came
	URL            string          // for the books
	IdempotencyKey string
}

// Paid is a payment that goes to the seller.
type Paid struct {
	ID      string // of the payment
	Payload x402.Payload
}

// Declined is purser's answer in the place of a payment.
type Declined struct {
	Reason, Text string          // a word of package declines, and the words for people
	Payment      string          // id of the payment that stands under the key; "" if none is known
	Details      json.RawMessage // purser's answer, an object; nil: it gave none
	// Begun: a payment may stand under the idempotency key, or wait for a person.
	Begun bool
}

func (e *Declined) Error() string { return e.Text }

// Pay asks the REST API for a payment that the seller settles. It asks again under the same idempotency key while no
// answer comes. Errors: [*Declined], and that of the context.
func (c *Client) Pay(ctx context.Context, p Purchase) (Paid, error) {
	text, err := json.Marshal(map[string]string{
		"paymentRequiredHeader": base64.StdEncoding.EncodeToString(p.Terms), "requestUrl": p.URL,
		"idempotencyKey": p.IdempotencyKey, "settlement": "seller", "task": c.Task,
	})
	if err != nil {
		return Paid{}, fmt.Errorf("asking for a payment: %w", err)
	}
	reached := false
	for try := 0; ; try++ {
		paid, again, err := c.payOnce(ctx, text)
		if ctx.Err() != nil {
			return Paid{}, ctx.Err()
		}
		var declined *Declined
		if errors.As(err, &declined) {
			reached = reached || again
			declined.Begun = declined.Begun || reached
		}
		if err == nil || !again || try == payTries-1 {
			return paid, err
		}
		pause := time.NewTimer(payPauses[try])
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return Paid{}, ctx.Err()
		}
	}
}

// payOnce asks once. again: it does not say whether there is a payment, and may be asked again.
func (c *Client) payOnce(ctx context.Context, body []byte) (paid Paid, again bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, payTime)
	defer cancel()
	status, text, err := c.post(ctx, "/v1/pay", body)
	if err != nil {
		return paid, true, &Declined{Reason: "purser-unreachable", Text: err.Error()}
	}
	if status == http.StatusOK {
		paid, err = readPaid(text)
		if err != nil {
			return paid, false, &Declined{Reason: "protocol", Text: "purser's payment is not for calls of MCP: " + err.Error(), Begun: true}
		}
		return paid, false, nil
	}
	var problem struct {
		Error, Detail, Rule string
		Payment             *struct{ ID string }
		Approval            *struct{ ID string }
	}
	d := &Declined{Text: http.StatusText(status)}
	if json.Unmarshal(text, &problem) == nil && problem.Error != "" {
		d.Text, d.Reason, d.Details = problem.Error, problem.Rule, text
		if problem.Detail != "" {
			d.Text = problem.Detail
		}
	}
	if problem.Payment != nil {
		d.Payment, d.Begun = problem.Payment.ID, true
	}
	if problem.Approval != nil { // a person answers for this key
		d.Begun = true
	}
	switch {
	case status == http.StatusUnauthorized:
		d.Text = ErrUnknownKey.Error()
	case status == http.StatusNotFound && d.Details == nil:
		d.Text = fmt.Sprintf("there is no REST API of purser at %s", c.Proxy)
	}
	return paid, status >= http.StatusInternalServerError, d
}

func readPaid(text []byte) (p Paid, err error) {
	var answer struct {
		PaymentSignature, PaymentHeader string
		Payment                         struct{ ID string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return p, err
	}
	p.ID = answer.Payment.ID
	switch answer.PaymentHeader {
	case x402.HeaderSignature, "":
		p.Payload.Version = 2
	case x402.HeaderV1Payment:
		p.Payload.Version = 1
	case mpp.HeaderCredential, mpp.HeaderOwnCredential:
		p.Payload, err = mpp.DecodeField(answer.PaymentSignature)
		return p, err
	default:
		return p, fmt.Errorf("it belongs into the header %q", answer.PaymentHeader)
	}
	p.Payload.JSON, err = base64.StdEncoding.DecodeString(answer.PaymentSignature)
	if err == nil && !json.Valid(p.Payload.JSON) {
		err = errors.New("it is no JSON")
	}
	return p, err
}

// PostReceipt hands a seller's receipt to purser.
func (c *Client) PostReceipt(ctx context.Context, payment, receipt string) error {
	text, err := json.Marshal(map[string]string{"receipt": receipt})
	if err != nil {
		return fmt.Errorf("posting a receipt: %w", err)
	}
	status, _, err := c.post(ctx, "/v1/payments/"+url.PathEscape(payment)+"/receipt", text)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("purser answered %d", status)
	}
	if err != nil {
		return fmt.Errorf("posting the receipt of payment %s: %w", payment, err)
	}
	return nil
}

// post sends JSON to the REST API, and returns status and body of the answer.
func (c *Client) post(ctx context.Context, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Proxy.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Api-Key", c.Key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.client(&http.Transport{}).Do(r)
	if err != nil {
		return 0, nil, c.unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return resp.StatusCode, text, nil
}
