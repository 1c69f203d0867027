package payapi_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// Later calls do not read dead attempts under an idempotency key, so their number costs nothing. In
// this test they cannot be read.
func TestDeadAttemptsUnderOneKeyCostNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "purser.db")
	w := newWorld(t, onDisk(path))
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	body := order(5, "idempotencyKey", "k")
	for range 60 {
		w.released(w.call("POST", "/v1/pay", key, body).is(402, verifyFailed).text("payment.id"))
		w.clock.advance(5 * time.Minute) // refused authorizations expire
		w.recover()
	}
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	file, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket([]byte("payments"))
		for id, _ := rows.Cursor().First(); id != nil; id, _ = rows.Cursor().Seek(append(id, 0)) {
			damaged++
			if err := rows.Put(id, []byte("damaged")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	next := newWorld(t, onDisk(path))
	next.clock.advance(6 * time.Hour)
	paid := next.call("POST", "/v1/pay", key, body).is(200, "").want("settled", true)
	if again := next.call("POST", "/v1/pay", key, body).is(200, ""); again.raw != paid.raw || damaged != 60 {
		t.Errorf("%d damaged, the stored answer is %s", damaged, again.raw)
	}
}

// recover runs recovery until no payment is due.
func (w *world) recover() {
	w.t.Helper()
	for n := 1; n > 0; {
		var err error
		if n, err = w.payer.RecoverOnce(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A refused payment whose outcome can no longer change is kept as short as others.
func TestRefusedPaymentsRetire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	id := w.call("POST", "/v1/pay", key, order(5, "idempotencyKey", "k")).is(402, verifyFailed).text("payment.id")
	w.released(id)
	look := func(after time.Duration) (retired, kept bool) {
		w.clock.advance(after)
		w.recover()
		row, err := w.store.Payment(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return row.Retired, row.Offer.Accepted != nil && row.Detail != nil
	}
	if retired, kept := look(time.Hour); retired || !kept {
		t.Errorf("after an hour: retired %t, kept %t", retired, kept)
	}
	if retired, kept := look(29 * 24 * time.Hour); retired || !kept {
		t.Errorf("after 29 days: retired %t, kept %t", retired, kept)
	}
	look(2 * 24 * time.Hour) // an hour later the clock must still say so
	if retired, kept := look(time.Hour); !retired || kept {
		t.Errorf("after 31 days: retired %t, kept %t", retired, kept)
	}
	w.call("GET", "/v1/payments/"+id, key, nil).is(200, "").want("payment.flags", []string{"refused"})
	if err := w.store.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

const tooMany = "Too many requests"

// failing returns a world whose facilitator refuses every payment.
func failing(t *testing.T, change ...func(*setup)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.facilitator.onVerify(says(200, `{"isValid":false,"invalidReason":"invalid_payload"}`))
	return w
}

// anew returns an order that repeats no earlier one.
func anew(n int) map[string]any { return order(5, "requestUrl", fmt.Sprintf("%s?n=%d", bought, n)) }

// rows returns the payments of a key in the store.
func (w *world) rows(secret string) int {
	w.t.Helper()
	list, err := w.store.Payments(w.t.Context(), pay.PaymentQuery{KeyID: w.keyID(secret), Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

// A key with failing payments makes at most 100 rows a minute and 3,000 a day.
func TestFailedPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	still := newClock().base // a clock that does not move
	ahead := new(atomic.Int64)
	w := failing(t, func(s *setup) { s.pay.Clock = func() time.Time { return still.Add(time.Duration(ahead.Load())) } })
	key, other := w.payingKey(), w.payingKey()
	for n := range 100 {
		w.call("POST", "/v1/pay", key, anew(n)).is(402, verifyFailed)
	}
	for n := range 20 {
		a := w.call("POST", "/v1/pay", key, anew(1000+n)).is(429, tooMany)
		if a.text("upgradeUrl") == "" || a.header.Get("Retry-After") != "60" {
			t.Fatalf("Retry-After %q, %s", a.header.Get("Retry-After"), a.raw)
		}
	}
	if n := w.rows(key); n != 100 {
		t.Errorf("%d rows", n)
	}
	// Other keys are served, and so is this one after a minute.
	w.facilitator.verify.Store(nil)
	w.call("POST", "/v1/pay", other, anew(1)).is(200, "")
	ahead.Add(int64(time.Minute))
	w.call("POST", "/v1/pay", key, anew(2000)).is(200, "")
	if err := w.store.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFailedPaymentsOfADayAreBounded(t *testing.T) {
	t.Parallel()
	w := failing(t, func(s *setup) { s.pay.Failures = pay.FailureBounds{PerMinute: -1, PerDay: 130} })
	key := w.payingKey()
	for n := range 130 {
		w.call("POST", "/v1/pay", key, anew(n)).is(402, verifyFailed)
	}
	a := w.call("POST", "/v1/pay", key, anew(1000)).is(429, tooMany)
	if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 11*3600 || wait > 12*3600 {
		t.Errorf("Retry-After %q at noon", a.header.Get("Retry-After"))
	}
	w.clock.advance(12 * time.Hour)
	w.call("POST", "/v1/pay", key, anew(2000)).is(402, verifyFailed)
}

// Successful payments are not slowed down.
func TestPaymentsThatSucceedAreNotBounded(t *testing.T) {
	t.Parallel()
	still := newClock().base
	w := newWorld(t, func(s *setup) { s.pay.Clock = func() time.Time { return still } })
	key := w.payingKey()
	for n := range 150 {
		w.call("POST", "/v1/pay", key, anew(n)).is(200, "")
	}
}

// A flood by one key leaves only two counters behind.
func TestFailuresLeaveFewCounters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "purser.db")
	w := failing(t, onDisk(path))
	key := w.payingKey()
	for n := range 60 {
		w.call("POST", "/v1/pay", key, anew(n)).is(402, verifyFailed)
		w.clock.advance(time.Hour)
	}
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.View(func(tx *bbolt.Tx) error {
		var names []string
		err := tx.Bucket([]byte("counters")).ForEach(func(name, _ []byte) error {
			if pay.Counter(name).CountsFailures() {
				names = append(names, string(name))
			}
			return nil
		})
		if len(names) != 3 { // of a minute, of a day, and of what has begun in a minute
			t.Errorf("counters %v", names)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A challenge is paid only when little of it must be stored. Descriptions and schemas need not be.
func TestFatChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	fat := func(size int) map[string]any {
		return map[string]any{"extra": map[string]any{"name": "USD Coin", "version": "2", "x": strings.Repeat("x", size)}}
	}
	for name, c := range map[string]string{
		"requirement": v1(requirement(fat(9 << 10))),
		"v2":          v2(requirementV2(fat(9 << 10))),
	} {
		a := w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": c, "requestUrl": bought})
		if a.status != 402 || a.text("error") != refusedByPolicy || a.text("rule") != "challenge-too-large" {
			t.Errorf("%s: %d %.300s", name, a.status, a.raw)
		}
	}
	if n := w.rows(key); n != 0 {
		t.Errorf("%d rows", n)
	}
	for name, c := range map[string]string{
		"little enough": v1(requirement(fat(7 << 10))),
		"escapes":       v1(requirement(map[string]any{"description": strings.Repeat(`"`, 5<<10)})),
		"resource": encode(map[string]any{
			"x402Version": 2, "resource": map[string]any{"url": bought, "description": strings.Repeat("x", 9<<10)}, "accepts": []any{requirementV2(nil)},
		}),
		"extensions": encode(map[string]any{
			"x402Version": 2, "resource": map[string]any{"url": bought}, "accepts": []any{requirementV2(nil)}, "extensions": fat(9 << 10),
		}),
	} {
		w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": c, "requestUrl": bought + "?" + name[:1]}).is(200, "")
	}
	// Among several entries, one that fits is paid.
	both := v2(requirementV2(fat(9<<10)), requirementV2(map[string]any{"amount": "7"}))
	id := w.call("POST", "/v1/pay", key, map[string]any{"paymentRequiredHeader": both, "requestUrl": bought + "?2"}).is(200, "").text("payment.id")
	w.call("GET", "/v1/payments/"+id, key, nil).is(200, "").want("payment.amount", "7")
}

// An amount of 0 would pass every balance check and budget, but is no payment.
func TestAmountOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	for _, settlement := range []string{"payer", "seller"} {
		w.call("POST", "/v1/pay", key, order(0, "settlement", settlement)).is(402, refusedByPolicy).want("rule", "amount")
	}
	if n := w.rows(key); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.api.RegistrationClosed = true })
	const closed = "Registration is closed"
	w.call("POST", "/api-keys", "", nil).is(403, closed)
	w.call("POST", "/api-keys", "", map[string]any{"label": "x", "key": "pk_of-my-own-choice"}).is(403, closed)
	w.call("POST", "/api-keys", "", "no json").is(403, closed)
	w.call("POST", "/api-keys", "", nil, "X-Internal-Secret", "wrong").is(403, closed)
	w.call("POST", "/api-keys", "", nil, "X-Internal-Secret", internalSecret, "X-Internal-Secret", internalSecret).is(403, closed)
	w.call("POST", "/api-keys", "", map[string]any{"organization_id": "o", "plan": "agency"}, "X-Internal-Secret", "wrong").is(403, closed)
	if keys, err := w.books.Keys(t.Context(), "", 10); err != nil || len(keys) != 0 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	made := w.call("POST", "/api-keys", "", nil, "X-Internal-Secret", internalSecret).is(201, "").text("key")
	w.call("GET", "/wallets/me", made, nil).is(200, "")
	_, secret, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "the operator's"})
	if err != nil {
		t.Fatal(err)
	}
	w.call("POST", "/wallets", secret, nil).is(201, "")
}
