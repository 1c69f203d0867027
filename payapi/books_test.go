package payapi_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
)

func TestSpend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.payingKey(), w.payingKey()
	if a := w.call("GET", "/v1/spend", key, nil).is(200, ""); a.raw != `{"events":[],"pending":{"count":0,"amount":"0"}}`+"\n" {
		t.Error(a.raw)
	}
	var payments []string
	for i := range 5 {
		payments = append(payments, w.call("POST", "/v1/pay", key, order(i+1)).is(200, "").text("payment.id"))
	}
	foreign := w.call("POST", "/v1/pay", other, order(99)).is(200, "")
	events := w.call("GET", "/v1/spend", key, nil).is(200, "").list("events")
	if len(events) != 5 {
		t.Fatalf("events %v", events)
	}
	for i, e := range events {
		n := 5 - i
		created, err := time.Parse(time.RFC3339, e["created_at"].(string))
		if uuid.Validate(e["id"].(string)) != nil || e["amount"] != fmt.Sprint(n) || e["currency"] != "USDC" || e["request_url"] != bought ||
			e["payment_id"] != payments[n-1] || err != nil || created.Location() != time.UTC || len(e) != 6 {
			t.Errorf("event %d: %v", i, e)
		}
	}
	// Pages.
	page := w.call("GET", "/v1/spend?limit=2", key, nil).list("events")
	rest := w.call("GET", "/v1/spend?limit=500&before="+page[1]["id"].(string), key, nil).list("events")
	if len(page) != 2 || len(rest) != 3 || rest[0]["amount"] != "3" {
		t.Errorf("pages %v, %v", page, rest)
	}
	foreignEvent := w.call("GET", "/v1/spend", other, nil).list("events")[0]
	if foreignEvent["payment_id"] != foreign.text("payment.id") {
		t.Error(foreignEvent)
	}
	for _, before := range []string{"x", uuid.NewString(), foreignEvent["id"].(string)} {
		w.call("GET", "/v1/spend?before="+before, key, nil).is(400, "Invalid before")
	}
}

func TestLimitRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for _, path := range []string{"/v1/spend", "/v1/payments"} {
		for _, limit := range []string{"1", "100", "500", "501", "00005", "99999999999999999999999"} {
			w.call("GET", path+"?limit="+limit, key, nil).is(200, "")
		}
		for _, limit := range []string{"", "0", "-1", "-99999999999999999999", "1.5", "1e2", "ten", "0x10", "%2B5", "5%20", "NaN", "1_0"} {
			w.call("GET", path+"?limit="+limit, key, nil).is(400, "Invalid limit")
		}
		w.call("GET", path+"?limit=%zz", key, nil).is(400, "Invalid query")
		w.call("GET", path+"?before=nonsense", key, nil).is(400, "Invalid before")
	}
}

func TestPayments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := w.payingKey(), w.payingKey()
	if a := w.call("GET", "/v1/payments", key, nil).is(200, ""); a.raw != `{"payments":[]}`+"\n" {
		t.Error(a.raw)
	}
	settled := w.call("POST", "/v1/pay", key, order(1)).is(200, "")
	open := w.call("POST", "/v1/pay", key, order(2, "settlement", "seller")).is(200, "").text("payment.id")
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`))
	refused := w.call("POST", "/v1/pay", key, order(3)).is(402, verifyFailed).text("payment.id")

	id := settled.text("payment.id")
	one := w.call("GET", "/v1/payments/"+id, key, nil).is(200, "")
	got, _ := one.at("payment").(map[string]any)
	created, err := time.Parse(time.RFC3339, one.text("payment.created_at"))
	if err != nil || created.Location() != time.UTC {
		t.Error(one.raw)
	}
	for name, want := range map[string]any{
		"id": id, "state": "settled", "protocol": "x402", "rail": "eip3009", "settlement": "payer", "amount": "1", "currency": "USDC", "network": "base", "payTo": seller,
		"request_url": bought, "transaction": settled.text("transaction"), "validBefore": settled.text("payment.validBefore"),
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if len(got) != 14 { // with flags and created_at
		t.Errorf("members: %s", one.raw)
	}
	for _, path := range []string{"/v1/payments/" + id, "/v1/payments/" + uuid.NewString(), "/v1/payments/x"} {
		w.call("GET", path, other, nil).is(404, "Payment not found")
	}
	for state, want := range map[string][]string{
		"?state=settled": {id}, "?state=refused": {refused}, "?state=open": {refused, open}, "?state=void": {}, "?state=disputed": {},
		"?state=unresolved": {}, "?state=confirmed": {}, "": {refused, open, id}, "?limit=1": {refused}, "?limit=1&before=" + refused: {open},
		"?before=" + open: {id}, "?state=open&before=" + refused: {open},
	} {
		var ids []string
		for _, p := range w.call("GET", "/v1/payments"+state, key, nil).is(200, "").list("payments") {
			ids = append(ids, p["id"].(string))
		}
		if strings.Join(ids, " ") != strings.Join(want, " ") {
			t.Errorf("%s lists %v, want %v", state, ids, want)
		}
	}
	for _, state := range []string{"", "Open", "paid", "open,void"} {
		w.call("GET", "/v1/payments?state="+state, key, nil).is(400, "Invalid state")
	}
	detail := w.call("GET", "/v1/payments?state=x", key, nil).is(400, "Invalid state").text("detail")
	for _, state := range []string{"open", "settled", "void", "refused", "unresolved", "confirmed", "disputed", "reconciled"} {
		w.call("GET", "/v1/payments?state="+state, key, nil).is(200, "")
		if !strings.Contains(detail, state) {
			t.Errorf("%s is taken but not named: %s", state, detail)
		}
	}
}

// A settlement that the chain disproves is corrected by a second event.
func TestCorrectionAndTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.payingKey()
	row := w.released(w.paysFor(secret, "night-run", bought))
	now := w.clock.now()
	leased, err := w.store.Acquire(t.Context(), row.ID, "test", now, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	eventID := uuid.Must(uuid.NewV7()).String()
	if _, _, err := w.store.Record(t.Context(), pay.Outcome{
		PaymentID: row.ID, Fence: leased.Lease.Fence, At: now, Verdict: pay.VerdictDisputed, EventID: eventID, Reason: "not on chain", Release: true,
	}); err != nil {
		t.Fatal(err)
	}
	events := w.call("GET", "/v1/spend", secret, nil).is(200, "").list("events")
	if len(events) != 2 || events[0]["amount"] != "-10000" || events[0]["corrects"] != events[1]["id"] || events[0]["id"] != eventID ||
		events[1]["amount"] != "10000" || events[1]["task"] != "night-run" {
		t.Errorf("events %v", events)
	}
	w.call("GET", "/v1/payments/"+row.ID, secret, nil).want("payment.task", "night-run").want("payment.flags", []string{"disputed"})
}

// The monthly quota holds exactly for one unclaimed key, under concurrency.
func TestMonthlyLimit(t *testing.T) {
	t.Parallel()
	const limit, parallel = 3000, 16
	off := 0
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy.PerMinute = &off }) // all of a month's within a minute
	w.clock.stands.Store(true)                                                // however long that takes
	key, other := w.payingKey(), w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"insufficient_funds"}`))
	for range parallel {
		w.call("POST", "/v1/pay", key, order(1)).is(402, verifyFailed)
	}
	w.facilitator.verify.Store(nil)

	kept := w.call("POST", "/v1/pay", key, order(1, "idempotencyKey", "kept")).is(200, "")
	var (
		wg     sync.WaitGroup
		made   atomic.Int64
		paid   sync.Map
		number atomic.Int64
	)
	for range parallel {
		wg.Go(func() {
			for n := made.Add(1); n < limit; n = made.Add(1) { // one exists already
				a, err := w.try(t.Context(), "POST", "/v1/pay", key, order(1, "requestUrl", fmt.Sprintf("%s/%d", bought, n)))
				if err != nil || a.status != 200 {
					t.Errorf("%v: %d %s", err, a.status, a.raw)
					return
				}
				if _, again := paid.LoadOrStore(a.at("payment.id"), true); again {
					t.Errorf("paid with one payment twice: %s", a.raw)
				}
				number.Add(1)
			}
		})
	}
	wg.Wait()
	if n := number.Load(); n != limit-1 {
		t.Fatalf("%d of %d payments", n+1, limit)
	}
	const reached = "Payment limit reached for your plan this month"
	for i := range parallel {
		wg.Go(func() {
			a, err := w.try(t.Context(), "POST", "/v1/pay", key, order(i+1))
			if err != nil || a.status != 429 || a.at("error") != reached || a.at("upgradeUrl") != w.url+"/dashboard" {
				t.Errorf("%v: %d %s", err, a.status, a.raw)
			}
		})
	}
	wg.Wait()
	if n, twice := w.facilitator.moved(); n != limit || twice {
		t.Errorf("%d authorizations settled, twice: %t", n, twice)
	}
	// A 429 comes after the 400s and before policy. A repeat needs no place. Other keys still pay.
	w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"scheme": "upto"}))}).
		is(400, "Unsupported payment scheme upto")
	w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": v1(requirement(map[string]any{"maxTimeoutSeconds": 5}))}).is(429, reached)
	w.call("POST", "/v1/quote", key, order(1)).is(429, reached)
	w.call("POST", "/v1/pay", key, order(1, "idempotencyKey", "kept")).is(200, "").want("payment.id", kept.text("payment.id"))
	w.call("POST", "/v1/pay", other, order(1)).is(200, "")

	for query, want := range map[string]int{"": 100, "?limit=499": 499, "?limit=500": 500, "?limit=100000": 500} {
		if got := len(w.call("GET", "/v1/spend"+query, key, nil).is(200, "").list("events")); got != want {
			t.Errorf("/v1/spend%s lists %d events, want %d", query, got, want)
		}
	}
	// All events, page by page.
	events, before := 0, ""
	for {
		page := w.call("GET", "/v1/spend?limit=500"+before, key, nil).is(200, "").list("events")
		if len(page) == 0 {
			break
		}
		events += len(page)
		before = "&before=" + page[len(page)-1]["id"].(string)
	}
	if events != limit {
		t.Errorf("%d spend events", events)
	}
	w.clock.advance(16 * 24 * time.Hour)
	w.call("POST", "/v1/pay", key, order(1)).is(200, "")
}

// A repeated parameter is refused, because a filter in front of purser might read the other value.
func TestParametersTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for query, want := range map[string]string{
		"/v1/spend?limit=1&limit=1": "Invalid limit", "/v1/spend?limit=1&limit=x": "Invalid limit", "/v1/spend?before=&before=": "Invalid before",
		"/v1/spend?task=a&task=b": "Invalid task", "/v1/payments?limit=1&li%6dit=2": "Invalid limit",
		"/v1/payments?before=&before=": "Invalid before", "/v1/payments?state=open&state=void": "Invalid state",
	} {
		w.call("GET", query, key, nil).is(400, want).want("detail", "it is given more than once")
	}
	for _, query := range []string{"/v1/spend?state=x&state=y&x=1&x=2", "/v1/payments?task=a&task=b", "/v1/spend?limit=1&Limit=2"} {
		w.call("GET", query, key, nil).is(200, "")
	}
}
