package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/x402"
)

const seller = "https://seller.example"

// order is one logical request of an agent, however often it is sent. It must move money at most once.
type order struct {
	number int
	key    pay.Key
	secret string
	idem   string // idempotency key; ""
	door   door
	posts  bool
	lies   bool // its agent posts an invented receipt
	later  bool // its agent does not ask for it yet
	path   string
	tool   bool // it is a call of MCP
	own    bool // its agent has a credential of its own in Authorization
	// resumes: its agent asks for the rest of a stream that was cut off.
	resumes bool
	led     time.Time // when a redirect led here; zero: none did

	began   time.Time
	tries   int
	running *attempt
	// quiet is the time before which a further try would be a purchase of its own.
	quiet time.Time
	done  bool
	ended string // why the agent has given up
}

// door names the way by which an order is asked for.
type door string

const (
	proxyDoor  door = "proxy"
	payerDoor  door = "REST, settled by purser"
	sellerDoor door = "REST, settled by the seller"
	// operatorDoor takes withdrawals. They keep no limits of the key.
	operatorDoor door = "an operator's order"
)

// attempt is one try.
type attempt struct {
	order *order
	node  *node
	began time.Time
	leave context.CancelFunc
	// deaf: the agent has gone, and purser does not know. served: it has the goods, and tells purser of the receipt.
	deaf, served bool

	result chan outcome
}

// outcome holds what an agent has got.
type outcome struct {
	status   int
	reason   string
	location string
	body     string
	err      error
}

func (o outcome) String() string {
	switch {
	case o.err != nil:
		return "no answer: " + o.err.Error()
	case o.location != "":
		return fmt.Sprintf("%d to %s", o.status, o.location)
	}
	return fmt.Sprintf("%d %s", o.status, o.reason)
}

// insistence bounds the time in which an agent without an idempotency key asks again. Later its request is a new
// purchase (pay.RepeatGrace).
const insistence = 100 * time.Second

// ordering bounds the time in which an operator orders the same withdrawal again. After an hour it is another one.
const ordering = 55 * time.Minute

// following bounds the time in which an agent follows a redirect: purser remembers it for a minute.
const following = 55 * time.Second

// mayTry reports whether a further try still is the same request.
func (o *order) mayTry() bool {
	switch {
	case o.later || o.done || o.ended != "" || o.running != nil || time.Now().Before(o.quiet):
		return false
	case o.lies && o.tries > 0: // an invented receipt says that the order was answered: a further one is a new purchase
		return false
	case !o.led.IsZero() && time.Since(o.led) > following:
		return false
	case o.idem != "", o.tries == 0:
		return true
	case o.door == operatorDoor:
		return time.Since(o.began) < ordering
	}
	return time.Since(o.began) < insistence
}

// try sends the order once to a purser.
func (w *world) try(o *order, n *node) {
	if o.tries == 0 {
		o.began = time.Now()
	}
	o.tries++
	ctx, leave := context.WithCancel(acting(context.Background(), fmt.Sprintf("order %d try %d", o.number, o.tries)))
	a := &attempt{order: o, node: n, began: time.Now(), leave: leave, result: make(chan outcome, 1)}
	o.running = a
	w.conductor.say("order %d is sent to %s", o.number, n)
	w.tasks.Go(func() {
		switch o.door {
		case proxyDoor:
			a.result <- w.throughProxy(ctx, a)
		case payerDoor:
			_, got := w.askREST(ctx, a, "payer", w.mix.challengeOf(o.number, seller+o.path, ""))
			a.result <- got
		case sellerDoor:
			a.result <- w.payItself(ctx, a)
		case operatorDoor:
			a.result <- w.withdraw(ctx, a)
		}
	})
}

func (w *world) throughProxy(ctx context.Context, a *attempt) outcome {
	o, n := a.order, a.node
	if o.tool {
		return w.callTool(ctx, a)
	}
	call := proxy.NewCall(pay.Key{ID: o.key.ID}, "", o.idem)
	call.ReadKey = func(ctx context.Context) (pay.Key, error) { return n.store.Key(ctx, o.key.ID) }
	method, body := http.MethodGet, io.Reader(nil)
	if o.posts {
		method, body = http.MethodPost, bytes.NewReader(fmt.Appendf(nil, "order %d", o.number))
	}
	r, err := http.NewRequestWithContext(ctx, method, seller+o.path, body)
	if err != nil {
		return outcome{err: err}
	}
	if o.own {
		r.Header.Set("Authorization", ownCredential(o.number))
	}
	call.Ask(r.Header)
	resp, err := n.door.RoundTrip(r.WithContext(proxy.WithCall(ctx, call)))
	if err != nil {
		call.Finish(false)
		return outcome{err: err}
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	call.Finish(err == nil && ctx.Err() == nil && !n.isDead() && !w.isDeaf(a))
	if asked := resp.Header.Get(x402.HeaderRequired) + resp.Header.Get(headerChallenge); asked != "" && ctx.Err() == nil {
		w.termsTold(o, asked)
	}
	reason := resp.Header.Get("Purser-Declined") + resp.Header.Get("Purser-Error")
	return outcome{status: resp.StatusCode, reason: reason, location: resp.Header.Get("Location"), body: string(text), err: err}
}

// bought is purser's answer to POST /v1/pay.
type bought struct {
	PaymentSignature, PaymentHeader string
	Payment                         struct{ ID string }
}

// askREST asks a purser to pay a challenge.
func (w *world) askREST(ctx context.Context, a *attempt, settlement, challenge string) (b bought, got outcome) {
	o := a.order
	ask := map[string]string{"paymentRequiredHeader": challenge, "requestUrl": seller + o.path, "settlement": settlement}
	if o.idem != "" {
		ask["idempotencyKey"] = o.idem
	}
	got = w.call(ctx, a, "/v1/pay", ask)
	_ = json.Unmarshal([]byte(got.body), &b)
	return b, got
}

// call makes a call of a purser's API.
func (w *world) call(ctx context.Context, a *attempt, path string, body map[string]string) outcome {
	text, err := json.Marshal(body)
	if err != nil {
		return outcome{err: err}
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://purser.example"+path, bytes.NewReader(text))
	r.Header.Set("X-Api-Key", a.order.secret)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	a.node.api.ServeHTTP(&wire{answer, func() bool { return ctx.Err() != nil || a.node.isDead() || w.isDeaf(a) }}, r)
	return outcome{status: answer.Code, body: answer.Body.String(), reason: errorIn(answer.Body.Bytes())}
}

// payItself gets a payload, sends it to the seller, and posts the seller's receipt.
func (w *world) payItself(ctx context.Context, a *attempt) outcome {
	o := a.order
	asked := w.mix.challengeOf(o.number, seller+o.path, "")
	if w.mix.mppOf(o.number).is {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, seller+o.path, nil)
		if err != nil {
			return outcome{err: err}
		}
		resp, err := (&way{w, w.agents}).RoundTrip(r)
		if err != nil {
			return outcome{err: err}
		}
		asked = cmp.Or(resp.Header.Get(headerChallenge), resp.Header.Get(x402.HeaderRequired))
	}
	b, got := w.askREST(ctx, a, "seller", asked)
	if got.status != http.StatusOK || ctx.Err() != nil || w.isDeaf(a) {
		return got
	}
	if o.lies {
		lie := receiptOf
		if b.PaymentHeader != x402.HeaderSignature {
			lie = receiptMPP
		}
		w.call(ctx, a, "/v1/payments/"+b.Payment.ID+"/receipt", map[string]string{"receipt": lie(fmt.Sprintf("0x%064x", o.number+1))})
		if o.number%2 == 0 {
			return outcome{status: http.StatusPaymentRequired, reason: "never sent"}
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, seller+o.path, nil)
	if err != nil {
		return outcome{err: err}
	}
	r.Header.Set(b.PaymentHeader, b.PaymentSignature)
	resp, err := (&way{w, w.agents}).RoundTrip(r)
	if err != nil {
		return outcome{err: err}
	}
	text, err := io.ReadAll(resp.Body)
	receipt := cmp.Or(resp.Header.Get(x402.HeaderResponse), resp.Header.Get(headerReceipt))
	w.mu.Lock()
	a.served = receipt != "" && !a.deaf && ctx.Err() == nil
	w.mu.Unlock()
	if w.isServed(a) { // an agent that has given up has no answer to report
		w.call(ctx, a, "/v1/payments/"+b.Payment.ID+"/receipt", map[string]string{"receipt": receipt})
	}
	return outcome{status: resp.StatusCode, body: string(text), err: err}
}

// withdraw moves money out of the key's wallet by an operator's order.
func (w *world) withdraw(ctx context.Context, a *attempt) outcome {
	o := a.order
	to, err := x402.ParseAddress(sellerAddress)
	if err != nil {
		return outcome{err: err}
	}
	amount := money.New(priceOf(o.number))
	out, err := a.node.payer.Withdraw(ctx, pay.Order{
		Wallet: w.wallets[o.key.ID], To: to, Amount: &amount,
		Draw: func(pay.Holdings) (money.Amount, error) { return amount, nil },
	})
	switch {
	case err != nil:
		return outcome{err: err}
	case out.Payment.State != pay.Settled:
		return outcome{status: http.StatusAccepted, reason: string(out.Payment.State)}
	}
	return outcome{status: http.StatusOK}
}

// wire carries an answer to an agent that is still there.
type wire struct {
	*httptest.ResponseRecorder
	cut func() bool
}

func (w *wire) Write(p []byte) (int, error) {
	if w.cut() {
		return 0, errLost
	}
	return w.ResponseRecorder.Write(p)
}

// errorIn returns the error of a REST answer.
func errorIn(body []byte) string {
	var problem struct{ Error string }
	_ = json.Unmarshal(body, &problem)
	return problem.Error
}

// gather takes what agents have got since the last step.
func (w *world) gather() {
	for _, o := range w.orders {
		a := o.running
		if a == nil {
			continue
		}
		select {
		case got := <-a.result:
			o.running = nil
			a.leave()
			w.conductor.say("order %d got %s", o.number, got)
			w.conclude(o, got)
		default:
			if a.node.isDead() {
				o.running, o.done = nil, w.isServed(a)
				w.conductor.say("order %d lost its connection", o.number)
			}
		}
	}
}

// conclude has the agent decide what an answer means.
func (w *world) conclude(o *order, got outcome) {
	switch {
	case got.err != nil:
	case got.status == http.StatusOK:
		o.done = true
	case got.status >= 300 && got.status < 400 && got.location != "":
		o.ended = "it was led on"
		if w.mix.follows {
			w.follow(o, got.location)
		}
	case got.reason == "paid-not-delivered" && o.idem == "":
		o.ended = "the seller does not deliver" // a further request would be a new purchase
	}
}

// follow makes the request that a client makes when it follows a redirect: the same order, at another path.
func (w *world) follow(o *order, location string) {
	at := o.path
	if u, err := http.NewRequest(http.MethodGet, seller+o.path, nil); err == nil {
		if to, err := u.URL.Parse(location); err == nil {
			at = to.Path
		}
	}
	next := &order{number: o.number, key: o.key, secret: o.secret, door: proxyDoor, path: at, idem: o.idem, led: time.Now()}
	w.orders = append(w.orders, next)
	w.conductor.say("order %d is led to %s", o.number, at)
}

// giveUpWaiting has an agent stop waiting for an answer. purser hears of it, or not.
func (w *world) giveUpWaiting(a *attempt, deaf bool) {
	w.conductor.say("order %d is not waited for any more, deaf %t", a.order.number, deaf)
	a.order.running, a.order.done = nil, w.isServed(a)
	if deaf {
		w.mu.Lock()
		a.deaf = true
		w.mu.Unlock()
		// An equal call that starts within a second of the first one is a purchase of its own.
		a.order.quiet = a.began.Add(1500 * time.Millisecond)
		w.abandoned = append(w.abandoned, a)
		return
	}
	a.leave()
}

func (w *world) isServed(a *attempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.served
}

func (w *world) isDeaf(a *attempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.deaf
}
