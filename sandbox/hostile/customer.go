package hostile

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

// Enroll makes a key with an empty wallet.
func Enroll(ctx context.Context, purser string) (*Customer, error) {
	c := &Customer{Purser: purser, api: client(nil), direct: client(nil)}
	var key struct{ Key string }
	if err := c.call(ctx, http.MethodPost, "/api-keys", map[string]string{"label": "hostile world"}, &key); err != nil {
		return nil, err
	}
	return c, c.openWallet(ctx, key.Key)
}

func (c *Customer) openWallet(ctx context.Context, key string) error {
	c.Key = key
	var wallet struct{ Address x402.Address }
	if err := c.call(ctx, http.MethodPost, "/wallets", map[string]string{"network": "base"}, &wallet); err != nil {
		return err
	}
	c.Wallet = wallet.Address
	at, err := url.Parse(c.Purser)
	if err != nil {
		return err
	}
	at.User = url.User(c.Key)
	c.proxy = client(http.ProxyURL(at))
	return nil
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
	at := fmt.Sprintf("%s/buy?id=%d", seller, o.ID)
	if o.Version == 1 {
		at += "&v=1"
	}
	if o.Method == "" {
		o.Method = http.MethodGet
	}
	patience := c.Patience
	if patience == 0 {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if door == ProxyDoor {
		return c.throughProxy(ctx, at, o)
	}
	r, err := http.NewRequestWithContext(ctx, o.Method, at, nil)
	if err != nil {
		return Result{Err: err}
	}
	asked, err := do(c.direct, r)
	if err != nil {
		return Result{Err: err}
	}
	if asked.Status != http.StatusPaymentRequired {
		return result(asked, nil)
	}
	return c.throughAPI(ctx, at, door, o, asked)
}

func (c *Customer) throughProxy(ctx context.Context, at string, o Order) Result {
	r, err := http.NewRequestWithContext(ctx, o.Method, at, nil)
	if err != nil {
		return Result{Err: err}
	}
	if o.Key != "" {
		r.Header.Set("Idempotency-Key", o.Key)
	}
	got, err := do(c.proxy, r)
	out := result(got, err)
	_, challenged, _ := x402.FromResponse(got.Header, got.Body)
	out.Lured = challenged && got.Header.Get("Purser-Payment") != ""
	return out
}

// payAnswer is the body of an answer to POST /v1/pay.
type payAnswer struct {
	PaymentSignature, PaymentHeader string
	Settled                         bool
	Payment                         struct{ ID string }
}

func (c *Customer) throughAPI(ctx context.Context, at string, door Door, o Order, asked Answer) Result {
	challenge := asked.Header.Get(x402.HeaderRequired)
	if challenge == "" {
		challenge = base64.StdEncoding.EncodeToString(asked.Body)
	}
	body := map[string]string{"paymentRequiredHeader": challenge, "requestUrl": at, "settlement": "payer"}
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
	r, err := http.NewRequestWithContext(ctx, o.Method, at, nil)
	if err != nil {
		return Result{Err: err}
	}
	r.Header.Set(paid.PaymentHeader, paid.PaymentSignature)
	got, err := do(c.direct, r)
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
	out := Result{Status: a.Status, Err: err}
	if err != nil {
		return out
	}
	out.Done = a.Status >= 200 && a.Status < 300
	out.Reason = a.Header.Get("Purser-Declined")
	if out.Reason == "" {
		out.Reason = a.Header.Get("Purser-Error")
	}
	return out
}
