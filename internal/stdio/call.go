package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/protocol/toolcall"
)

// stage says how far a call has come.
type stage int

const (
	asked  stage = iota // the server has it, without a payment
	paying              // purser is asked for a payment
	paid                // the server has it with a payment
)

// call is a call of the client's that may cost something. The relay's lock guards what changes.
type call struct {
	*toolcall.Call

	stage stage
	gone  bool   // the client has cancelled it
	stop  func() // ends the asking for a payment

	client    *agent.Client
	purchase  *purchase
	payment   string              // its id
	message   []byte              // with the payment, as the server has it
	insists   bool                // the payment's protocol has the message sent again where the server asks again
	again     int                 // how often it was
	pausing   bool                // before it is
	abandoned func(answer []byte) // tells the answer to a call that was cancelled once it was paid; nil: it was not
}

// answered handles the server's answer to a call.
func (r *Relay) answered(ctx context.Context, c *call, line []byte) {
	r.mu.Lock()
	at, pausing := c.stage, c.pausing
	r.mu.Unlock()
	switch {
	case at == paying || pausing: // The server has answered already. Another answer is not the client's.
	case at == paid:
		r.paidAnswer(ctx, c, line)
	default:
		var a toolcall.Answer
		if len(line) <= toolcall.MaxAnswer {
			a = c.Hear(line)
		}
		if a.Terms == nil {
			r.forget(c)
			_ = r.toClient.send(line) // a client that is gone is found out by the end of its messages
			return
		}
		r.begin(ctx, c, a)
	}
}

// begin starts paying for a call, unless it was cancelled.
func (r *Relay) begin(ctx context.Context, c *call, a toolcall.Answer) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.gone {
		cancel()
		delete(r.calls, c.ID())
		return
	}
	c.stage, c.stop = paying, cancel
	r.working.Go(func() {
		defer cancel()
		r.pay(ctx, c, a)
	})
}

// pay pays for a call and sends it to the server again, or gives the client the answer to an equal one that was
// cancelled.
func (r *Relay) pay(ctx context.Context, c *call, a toolcall.Answer) {
	content := c.Content()
	l, err := r.purchases.lateAnswer(ctx, content)
	if l != nil {
		r.forget(c)
		r.end(l.purchase, r.toClient.send(c.Adopt(l.answer)) == nil)
		return
	}
	var of *purchase
	if err == nil {
		if c.client, err = r.o.Connect(ctx); err == nil {
			of, err = r.purchases.claim(c.client.Key, content)
		}
	}
	if err != nil {
		r.decline(ctx, c, &agent.Declined{Text: err.Error()})
		return
	}
	got, err := c.client.Pay(ctx, agent.Purchase{Terms: a.Terms, URL: c.Site(&url.URL{Host: r.o.Host}), IdempotencyKey: of.name})
	if err != nil {
		declined, is := errors.AsType[*agent.Declined](err)
		r.end(of, is && of.fresh && !declined.Begun)
		if !is {
			declined = &agent.Declined{Text: err.Error()}
		}
		r.decline(ctx, c, declined)
		return
	}
	message := c.Paid(a.Dialect, got.Payload)
	for i, b := range message { // Line breaks between the words of JSON are those of the terms.
		if b == '\n' || b == '\r' {
			message[i] = ' '
		}
	}
	r.mu.Lock()
	if c.gone || r.ended {
		r.mu.Unlock()
		r.end(of, false)
		r.decline(ctx, c, &agent.Declined{Text: "the call was cancelled"})
		return
	}
	c.stage, c.purchase, c.payment, c.message = paid, of, got.ID, message
	c.Loosen()
	spoken := protocol.Spoken().Of(got.Payload)
	c.insists = spoken != nil && spoken.Insists()
	r.mu.Unlock()
	_ = r.toServer.send(message) // a server that is gone is found out by the end of its messages
}

// decline answers a call that is not paid for, unless the client or the server has left it.
func (r *Relay) decline(ctx context.Context, c *call, d *agent.Declined) {
	r.mu.Lock()
	left := r.ended || !c.gone && ctx.Err() != nil // The end of the server, or of the relay, has other words.
	if !left {
		delete(r.calls, c.ID())
	}
	gone := c.gone
	r.mu.Unlock()
	if left || gone {
		return
	}
	r.o.Tell("not paid: %s: %s", c.Name, d.Text)
	r.refuse(c, "purser did not pay: "+d.Text, d.Reason, d.Payment, d.Details)
}

// paidAnswer hands the answer to a paid call to the client. Terms in it are not the client's to see.
func (r *Relay) paidAnswer(ctx context.Context, c *call, line []byte) {
	a := c.Hear(line)
	if a.Terms != nil && a.Receipt == "" && r.insist(c) {
		return
	}
	r.mu.Lock()
	delete(r.calls, c.ID())
	abandoned := c.abandoned
	r.mu.Unlock()
	answered := a.Terms == nil && !a.Failed
	switch {
	case abandoned != nil && answered:
		abandoned(line)
	case abandoned != nil:
		abandoned(nil)
	case a.Terms != nil:
		r.o.Tell("payment %s was sent, and the server asks for money again: %s", c.payment, c.Name)
		r.refuse(c, "payment "+c.payment+" was sent, and the server asks for money again. It is not paid twice", "paid-not-delivered", c.payment, nil)
		r.end(c.purchase, false)
	default:
		r.end(c.purchase, r.toClient.send(line) == nil && answered)
	}
	if a.Receipt == "" || c.payment == "" {
		return
	}
	ctx = context.WithoutCancel(ctx)
	r.working.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, receiptTime)
		defer cancel()
		if err := c.client.PostReceipt(ctx, c.payment, a.Receipt); err != nil {
			r.o.Tell("%v", err) // The chain tells purser the same.
		}
	})
}

// insist sends a paid call again after a pause, with the same payment, if a server that asks for money again may not have
// looked at it. It reports whether it does.
func (r *Relay) insist(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause, more := protocol.InsistPause(c.again)
	if !c.insists || !more || r.ended {
		return false
	}
	c.again++
	c.pausing = true
	r.working.Go(func() {
		wait := time.NewTimer(pause)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.over: // the call is one that the server has left
			return
		}
		r.mu.Lock()
		c.pausing = false
		r.mu.Unlock()
		_ = r.toServer.send(c.message) // a server that is gone is found out by the end of its messages
	})
	return true
}

// leave answers the calls that a server has left by its end.
func (r *Relay) leave() {
	r.mu.Lock()
	left := r.calls
	r.calls = map[string]*call{}
	r.mu.Unlock()
	for _, c := range left {
		words := "the server ended before it answered"
		switch {
		case c.abandoned != nil:
			c.abandoned(nil)
		case c.stage == paid:
			words += fmt.Sprintf(". Payment %s was sent: the same call again sends the same payment", c.payment)
			r.end(c.purchase, false)
		}
		if !c.gone {
			r.refuse(c, words, "server-ended", c.payment, nil)
		}
	}
}

// refuse gives the client an answer in the place of the server's.
func (r *Relay) refuse(c *call, words, reason, payment string, details json.RawMessage) {
	if do := declines.Do(reason).String(); do != "" {
		words += ". " + do
	}
	told := map[string]any{}
	if details != nil {
		_ = json.Unmarshal(details, &told) // The rest is told in any case.
	}
	told["error"], told["purser"] = words, r.o.Version
	if reason != "" {
		told["reason"] = reason
	}
	if payment != "" {
		told["payment"] = payment
	}
	text, err := plainjson.Marshal(told)
	if err != nil { // texts, and JSON that was read
		panic(fmt.Sprintf("stdio: encoding an answer: %v", err))
	}
	_ = r.toClient.send(c.Refusal(c.Version(), words, text))
}

// end gives a purchase up, and tells people where that fails.
func (r *Relay) end(of *purchase, answered bool) {
	if err := r.purchases.end(of, answered); err != nil {
		r.o.Tell("%v", err)
	}
}

// forget drops a call that gets its answer.
func (r *Relay) forget(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, c.ID())
}
