package hostile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/purserpay/purser/x402"
)

// Door is a way to pay through purser.
type Door string

// The doors.
const (
	PayerDoor  Door = "api, payer settles"  // POST /v1/pay, settled by purser's facilitator
	SellerDoor Door = "api, seller settles" // POST /v1/pay, and the payload is given to the seller
	ProxyDoor  Door = "proxy"
)

// Doors lists all doors.
func Doors() []Door { return []Door{PayerDoor, SellerDoor, ProxyDoor} }

// maxGoods bounds the part of an answer that a customer reads, in bytes.
const maxGoods = 1 << 20

// Customer is an API key of a purser, with one wallet.
type Customer struct {
	Purser string // base URL of API and proxy
	Key    string
	Wallet x402.Address
	// Patience bounds the wait for an answer. Default: a minute.
	Patience time.Duration

	api, proxy, direct *http.Client
}

// newCustomer returns the customer of a key, whose wallet is unknown.
func newCustomer(purser, key string) *Customer {
	return &Customer{Purser: purser, Key: key, api: client(nil), direct: client(nil)}
}

// Enroll makes a key with an empty wallet.
func Enroll(ctx context.Context, purser string) (*Customer, error) {
	c := newCustomer(purser, "")
	var key struct{ Key string }
	if err := c.call(ctx, http.MethodPost, "/api-keys", map[string]string{"label": "hostile world"}, &key); err != nil {
		return nil, err
	}
	c.Key = key.Key
	var wallet struct{ Address x402.Address }
	if err := c.call(ctx, http.MethodPost, "/wallets", map[string]string{"network": "base"}, &wallet); err != nil {
		return nil, err
	}
	c.Wallet = wallet.Address
	return c.At(purser)
}

// Deployment returns the customer of a deployment's own key, whose wallet purser has made.
func Deployment(ctx context.Context, purser, key string) (*Customer, error) {
	c := newCustomer(purser, key)
	var list struct {
		Wallets []struct{ Address x402.Address }
	}
	if err := c.call(ctx, http.MethodGet, "/wallets/me", nil, &list); err != nil {
		return nil, err
	}
	if len(list.Wallets) != 1 {
		return nil, fmt.Errorf("purser's own key has %d wallets", len(list.Wallets))
	}
	c.Wallet = list.Wallets[0].Address
	return c.At(purser)
}

// client returns a client that opens a connection for each request and follows no redirects. A
// fault therefore hits one request only.
func client(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: proxy, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// At returns the same customer at a purser that was restarted at another address.
func (c *Customer) At(purser string) (*Customer, error) {
	at, err := url.Parse(purser)
	if err != nil {
		return nil, err
	}
	moved := *c
	moved.Purser = purser
	at.User = url.User(c.Key)
	moved.proxy = client(http.ProxyURL(at))
	return &moved, nil
}

// AskingThroughProxy returns the same customer, who reaches purser's API through purser's proxy.
func (c *Customer) AskingThroughProxy() *Customer {
	moved := *c
	moved.api = moved.proxy
	return &moved
}

// StatusError is an answer of purser's API with a status of 400 or more.
type StatusError struct {
	Status int
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("purser answered %d: %s", e.Status, e.Body) }

// call makes a request to purser's API.
func (c *Customer) call(ctx context.Context, method, path string, body, into any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.Purser+path, reader)
	if err != nil {
		return err
	}
	if c.Key != "" {
		r.Header.Set("X-Api-Key", c.Key)
	}
	got, err := do(c.api, r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if got.Status >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %w", method, path, &StatusError{got.Status, string(got.Body)})
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got.Body, into)
}

// do makes a request and reads at most maxGoods of its answer.
func do(client *http.Client, r *http.Request) (Answer, error) {
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxGoods+1))
	a := Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}
	if err == nil && len(text) > maxGoods {
		err = errors.New("the answer does not end")
	}
	return a, err
}

// Order is one purchase, however often the customer requests it.
type Order struct {
	ID      uint64
	Version int    // of x402; 0 means 2
	Key     string // idempotency key, or ""
	Method  string // default: GET
}

// Result says how one request for an order ended.
type Result struct {
	// Done reports that the customer got the goods.
	Done   bool
	Status int    // of the last answer; 0 without one
	Reason string // stated by the last answer
	Err    error  // why there was no complete answer
	// Lured reports a challenge in an answer after the payload had left. A client with x402 would
	// pay it again by itself.
	Lured bool
}

// Told reports whether the customer knows that it has paid and that the seller delivers nothing. A
// further request without an idempotency key is then a new purchase.
func (r Result) Told() bool { return r.Err == nil && r.Reason == "paid-not-delivered" }

func (r Result) String() string {
	switch {
	case r.Done:
		return "done"
	case r.Err != nil:
		return "no answer: " + r.Err.Error()
	}
	return fmt.Sprintf("%d %s", r.Status, r.Reason)
}

// Buy requests an order once, through a door.
func (c *Customer) Buy(ctx context.Context, seller string, door Door, o Order) Result {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, time.Minute))
	defer cancel()
	if door == ProxyDoor {
		got, err := o.request(ctx, c.proxy, seller, "Idempotency-Key", o.Key)
		out := result(got, err)
		_, challenged, _ := x402.FromResponse(got.Header, got.Body)
		out.Lured = challenged && got.Header.Get("Purser-Payment") != ""
		return out
	}
	asked, err := o.request(ctx, c.direct, seller, "", "")
	if err != nil || asked.Status != http.StatusPaymentRequired {
		return result(asked, err)
	}
	return c.throughAPI(ctx, seller, door, o, asked)
}

// BuyBeside requests an order once at a sidecar door. The base URL of the door replaces the
// seller's. Requests there spend by the deployment's key.
func (c *Customer) BuyBeside(ctx context.Context, sidecar string, o Order) Result {
	return result(o.request(ctx, c.direct, sidecar, "Idempotency-Key", o.Key))
}

// url returns the URL of the order at a seller.
func (o Order) url(seller string) string {
	at := fmt.Sprintf("%s/buy?id=%d", seller, o.ID)
	if o.Version == 1 {
		at += "&v=1"
	}
	return at
}

// request requests the order from a seller, with a header unless it is empty.
func (o Order) request(ctx context.Context, by *http.Client, seller, name, value string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, cmp.Or(o.Method, http.MethodGet), o.url(seller), nil)
	if err != nil {
		return Answer{}, err
	}
	if value != "" {
		r.Header.Set(name, value)
	}
	return do(by, r)
}

// payAnswer is the body of an answer to POST /v1/pay.
type payAnswer struct {
	PaymentSignature, PaymentHeader string
	Settled                         bool
	Payment                         struct{ ID string }
}

func (c *Customer) throughAPI(ctx context.Context, seller string, door Door, o Order, asked Answer) Result {
	challenge := asked.Header.Get(x402.HeaderRequired)
	if challenge == "" {
		challenge = base64.StdEncoding.EncodeToString(asked.Body)
	}
	body := map[string]string{"paymentRequiredHeader": challenge, "requestUrl": o.url(seller), "settlement": "payer"}
	if door == SellerDoor {
		body["settlement"] = "seller"
	}
	if o.Key != "" {
		body["idempotencyKey"] = o.Key
	}
	var paid payAnswer
	err := c.call(ctx, http.MethodPost, "/v1/pay", body, &paid)
	var refused *StatusError
	switch {
	case errors.As(err, &refused):
		return Result{Status: refused.Status, Reason: refused.Body}
	case err != nil:
		return Result{Err: err}
	case door == PayerDoor:
		return Result{Done: paid.Settled, Status: http.StatusOK}
	}
	got, err := o.request(ctx, c.direct, seller, paid.PaymentHeader, paid.PaymentSignature)
	if err != nil {
		return Result{Err: err}
	}
	for _, name := range []string{x402.HeaderResponse, x402.HeaderV1Response} {
		if receipt := got.Header.Get(name); receipt != "" {
			// The books show purser's judgement of the receipt. A customer that should have left,
			// but has its goods, still posts it.
			_ = c.call(context.WithoutCancel(ctx), http.MethodPost, "/v1/payments/"+paid.Payment.ID+"/receipt", map[string]string{"receipt": receipt}, nil)
			break
		}
	}
	return result(got, nil)
}

// result reads an answer as a customer does.
func result(a Answer, err error) Result {
	if err != nil {
		return Result{Status: a.Status, Err: err}
	}
	reason := cmp.Or(a.Header.Get("Purser-Declined"), a.Header.Get("Purser-Error"))
	return Result{Status: a.Status, Done: a.Status >= 200 && a.Status < 300, Reason: reason}
}
