//go:build unix

package pay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// costlyChallenges returns challenges that sellers and clients can send, each of them close to a bound of
// size or number.
func costlyChallenges(t *testing.T) map[string]string {
	const entry = `{"scheme":"exact","network":"%s","amount":"%d","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
		`"payTo":"%s","maxTimeoutSeconds":%d,"extra":{"name":"USD Coin","version":"2"}}`
	const base = "eip155:8453"
	challenge := func(extensions string, entries ...string) string {
		return `{"x402Version":2,"error":"","resource":{"url":"https://api.example.com/r"},"accepts":[` + strings.Join(entries, ",") + `],"extensions":` + extensions + `}`
	}
	entries := func(network, payTo string, amount, timeout int) (all []string) {
		for i := range 64 {
			all = append(all, fmt.Sprintf(entry, network, amount*(i+1), payTo, timeout))
		}
		return all
	}
	identified := func(info, pattern string) string {
		quoted, _ := json.Marshal(pattern)
		return `{"payment-identifier":{"info":` + info + `,"schema":{"type":"object","properties":{"id":{"type":"string","pattern":` + string(quoted) + `}}}}}`
	}
	info := `{"required":false`
	for i := range 250 {
		info += fmt.Sprintf(`,"m%d":"%s"`, i, strings.Repeat("x", 180))
	}
	info += "}"
	const optional = `{"required":false}`
	all := map[string]string{
		"pattern":            challenge(identified(optional, strings.Repeat(".{0,999}", 15)), entries(base, testSeller, 0, 60)...),
		"pattern of stars":   challenge(identified(optional, strings.Repeat("[a-z0-9-]*", 12)), entries(base, testSeller, 0, 60)...),
		"pattern of groups":  challenge(identified(optional, strings.Repeat("(", 50)+"x"+strings.Repeat("){9}", 50)), entries(base, testSeller, 0, 60)...),
		"large info":         challenge(identified(info, "^[a-zA-Z0-9_-]+$"), entries(base, testSeller, 0, 60)...),
		"to be kept":         challenge(identified(`{"x":"`+strings.Repeat(`\u0001`, 7500)+`"}`, ".+"), entries(base, testSeller, 1, 60)...),
		"networks":           challenge(`{}`, entries("eip155:1", testSeller, 1, 60)...),
		"short validity":     challenge(identified(info, "^[a-zA-Z0-9_-]+$"), entries(base, testSeller, 1, 1)...),
		"members of entries": `{"x402Version":2,"accepts":[` + strings.Repeat(`{`+strings.Repeat(`"":0,`, 1)+`"a":`+strings.Repeat("[", 28)+strings.Repeat("]", 28)+`},`, 63) + `{}]}`,
	}
	// An offer is compared with each requirement, and its signer is recovered wherever it fits.
	seller, thief := x402test.NewSeller(t), x402test.NewSeller(t)
	terms := x402test.Fields{
		"version": 1, "resourceUrl": "https://api.example.com/r", "scheme": "exact", "network": base,
		"asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "payTo": seller.Address().String(), "amount": "1", "validUntil": 0,
	}
	offers := func(list ...x402test.Fields) string { return string(x402test.Extensions(t, "offers", list)) }
	var others []x402test.Fields
	for i := range 11 {
		others = append(others, seller.Offer(terms.With("amount", fmt.Sprint(1000+i))))
	}
	same := entries(base, seller.Address().String(), 1, 60)
	for i := range same {
		same[i] = same[0]
	}
	all["forged offer"] = challenge(offers(thief.Offer(terms)), same...)
	all["other offers"] = challenge(offers(others...), same...)
	return all
}

// cpu returns what the process has used. Tests that look at it run alone.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A 402 must not cost more CPU than a payment does, many times over: one seller, or one key, would take
// it from all others.
func TestNoChallengeIsCostly(t *testing.T) { //nolint:paralleltest // it looks at the CPU of the process
	w := newWorld(t, nil)
	for name, text := range costlyChallenges(t) {
		each := time.Hour
		var err error
		for range 5 {
			before := cpu()
			r := w.rest(pay.SettleSeller, "https://api.example.com/r", "5", "")
			if r.Challenge, err = x402.DecodeHeader(text); err == nil {
				_, err = w.payer.Quote(t.Context(), r)
			}
			each = min(each, cpu()-before) // what else is at work is not the challenge's
		}
		t.Logf("%s, %d bytes: %s; %.100s", name, len(text), each, fmt.Sprint(err))
		if each > 40*time.Millisecond { // a tenth of that without the race detector
			t.Errorf("%s: one challenge costs %s of CPU", name, each)
		}
	}
}
