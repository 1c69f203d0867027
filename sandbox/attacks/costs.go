package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/loopback"
)

const (
	costlyTries  = "64 ways to pay and a costly pattern for ids in one challenge"
	quotesTries  = "one key asks for quotes as fast as it can"
	fillingTries = "one key without money begins payments that never end, as fast as it can"
	rpcTries     = "one key has purser ask the RPC as often as it can, by quotes and receipts"
)

func costAttacks() []attack {
	return []attack{
		{group: overload, name: "costly-challenge", tries: costlyTries, run: costlyChallenge},
		{group: overload, name: "quote-flood", tries: quotesTries, run: quoteFlood},
		{group: overload, name: "filling", tries: fillingTries, run: filling},
		{group: overload, name: "rpc-flood", tries: rpcTries, run: rpcFlood},
	}
}

// challenge makes a challenge with some equal ways to pay the seller of a player.
func (p *player) challenge(ways int, amount, method, extensions string) string {
	_, usdc := honest.Network()
	extra := fmt.Sprintf(`{"name":%q,"version":%q`, usdc.Name, usdc.Version)
	if method != "" {
		extra += fmt.Sprintf(`,"assetTransferMethod":%q`, method)
	}
	entry := fmt.Sprintf(`{"scheme":%q,"network":%q,"amount":%q,"asset":%q,"payTo":%q,"maxTimeoutSeconds":%d,"extra":%s}}`,
		honest.Scheme, honest.WireNetwork(2), amount, usdc.Address, p.world.PayTo, int(validity/time.Second), extra)
	return honest.InHeader(json.RawMessage(fmt.Sprintf(`{"x402Version":2,"error":"","resource":{"url":"http://127.0.0.1/"},"accepts":[%s%s],"extensions":%s}`,
		strings.Repeat(entry+",", ways-1), entry, extensions)))
}

// postAPI calls the API with the player's key.
func (p *player) postAPI(ctx context.Context, path string, body map[string]any) (answer, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.purser.url()+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, nil, err
	}
	r.Header.Set("X-Api-Key", p.customer.Key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := plain.Do(r)
	if err != nil {
		return answer{}, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var said bytes.Buffer
	_, err = said.ReadFrom(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	return answer{resp.StatusCode, resp.Status, resp.Header}, said.Bytes(), err
}

// costlyChallenge compares the time of quotes for a costly challenge with that of ordinary ones.
func costlyChallenge(ctx context.Context, e *examination) (outcome, error) {
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	const quotes = 8
	ask := func(challenge string) (time.Duration, error) {
		began := time.Now()
		for range quotes {
			if _, _, err := one.postAPI(ctx, "/v1/quote", map[string]any{"paymentRequiredHeader": challenge, "requestUrl": "http://127.0.0.1/"}); err != nil {
				return 0, err
			}
		}
		return time.Since(began).Round(time.Millisecond), nil
	}
	usual, err := ask(one.challenge(1, "10", "", "{}"))
	if err != nil {
		return outcome{}, err
	}
	pattern := fmt.Sprintf(`{"payment-identifier":{"info":{"required":false},"schema":{"properties":{"id":{"pattern":%q}}}}}`, strings.Repeat(".{0,999}", 15))
	costly, err := ask(one.challenge(64, "0", "", pattern))
	if err != nil {
		return outcome{}, err
	}
	if costly > 10*usual+2*time.Second {
		return failed([]string{fmt.Sprintf("%d quotes took %s, and %d ordinary ones %s", quotes, costly, quotes, usual)}, costlyTries), nil
	}
	return held("%s: %d quotes in %s", costlyTries, quotes, costly), nil
}

// quoteFlood asks for quotes until purser gives no more.
func quoteFlood(ctx context.Context, e *examination) (outcome, error) {
	bound := e.main.yours.quotes
	if bound == 0 || bound > mostFlood {
		return off("a key may ask for any number of quotes, or as good as any (quotes_per_minute)"), nil
	}
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	body := map[string]any{"paymentRequiredHeader": one.challenge(1, "10", "", "{}"), "requestUrl": "http://127.0.0.1/"}
	return e.tillRefused(ctx, bound, quotesTries, func(ctx context.Context, _ int64) (answer, error) {
		got, _, err := one.postAPI(ctx, "/v1/quote", body)
		return got, err
	})
}

// tillRefused floods purser until it answers 429, and judges that.
func (e *examination) tillRefused(ctx context.Context, bound int, tries string, ask func(ctx context.Context, n int64) (answer, error)) (outcome, error) {
	ctx, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	type end struct {
		got answer
		err error
	}
	var last atomic.Pointer[end]
	made, took, refused := flood(bound, func(n int64) bool {
		got, err := ask(ctx, n)
		if err == nil && (got.code < http.StatusBadRequest) {
			return false
		}
		last.Store(&end{got, err})
		return true
	})
	if !refused {
		return failed([]string{fmt.Sprintf("%d were answered in %s, and more would be", made, took)}, "%s", tries), nil
	}
	switch by := last.Load(); {
	case by.err != nil:
		return outcome{}, by.err
	case by.got.code == http.StatusPaymentRequired:
		return held("%s: your limits end it after %d", tries, made), nil
	case by.got.code != http.StatusTooManyRequests:
		return outcome{}, fmt.Errorf("after %d: %s", made, by.got.status)
	case by.got.header.Get("Retry-After") == "":
		return failed([]string{"the 429 has no Retry-After"}, "%s", tries), nil
	}
	return held("%s: 429 after %d", tries, made), nil
}

// mostBegun is the bound of new payments of a key without a limit of its own, in a minute.
const mostBegun = 3000

// filling begins payments that no seller ever gets, on a purser of its own.
func filling(ctx context.Context, e *examination) (outcome, error) {
	p, err := e.launch(ctx, "filling", "")
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	one, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	challenge := one.challenge(1, "10", "", "{}")
	return e.tillRefused(ctx, mostBegun, fillingTries, func(ctx context.Context, n int64) (answer, error) {
		got, _, err := one.postAPI(ctx, "/v1/pay", map[string]any{
			"paymentRequiredHeader": challenge, "settlement": "seller", "requestUrl": fmt.Sprintf("http://127.%d.%d.1/", n>>8&255, n&255),
		})
		return got, err
	})
}

// mostAsked bounds the calls to the RPC that one key may bring about in a few seconds, beside those that
// purser makes by itself.
const mostAsked = 300

// rpcFlood counts the calls to the RPC of a purser of its own.
func rpcFlood(ctx context.Context, e *examination) (outcome, error) {
	rpc := hostile.NewRPC(e.ledger.RPCURL())
	var asked atomic.Int64
	server, err := loopback.Serve(ctx, loopback.Options{Name: "RPC"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		rpc.ServeHTTP(w, r)
	}))
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = server.Close() }()
	p, err := e.launch(ctx, "calls", server.URL())
	if err != nil {
		return outcome{}, err
	}
	defer p.stop()
	one, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	pay := map[string]any{"paymentRequiredHeader": one.challenge(1, "10", "", "{}"), "settlement": "seller", "requestUrl": "http://127.0.0.1/"}
	got, text, err := one.postAPI(ctx, "/v1/pay", pay)
	if err != nil {
		return outcome{}, err
	}
	var paid struct{ Payment struct{ ID string } }
	if err := json.Unmarshal(text, &paid); err != nil || paid.Payment.ID == "" {
		return outcome{}, fmt.Errorf("POST /v1/pay: %s", got.status)
	}
	asked.Store(0)
	began := time.Now()
	used := honest.InHeader(map[string]any{"success": false, "errorReason": honest.NonceUsed, "network": honest.WireNetwork(2)})
	allowances := map[string]any{"paymentRequiredHeader": one.challenge(64, "10", "permit2", "{}"), "requestUrl": "http://127.0.0.1/"}
	const calls = 100
	for n := range calls {
		if _, _, err := one.postAPI(ctx, "/v1/payments/"+paid.Payment.ID+"/receipt", map[string]any{"receipt": used}); err != nil {
			return outcome{}, err
		}
		if n%10 == 0 {
			if _, _, err := one.postAPI(ctx, "/v1/quote", allowances); err != nil {
				return outcome{}, err
			}
		}
	}
	n, took := asked.Load(), time.Since(began).Round(time.Millisecond)
	// A receipt may be looked after once a second.
	if most := mostAsked + int64(30*took.Seconds()); n > most {
		return failed([]string{fmt.Sprintf("%d receipts and %d quotes in %s had the RPC asked %d times", calls, calls/10, took, n)}, rpcTries), nil
	}
	return held("%s: it is asked %d times", rpcTries, n), nil
}
