package sandbox

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/goleak"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The first chain starts one set for the whole process.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		// The node's peer database is closed, but its pool drains for another half minute.
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
	)
}

// patience bounds every wait of the tests.
const patience = time.Minute

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, o Options) *World {
	t.Helper()
	w, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// buyer is an account that pays without purser.
type buyer struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

// newBuyer returns an account that owns tokens.
func newBuyer(t *testing.T, w *World, tokens uint64) buyer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := buyer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))}
	if tokens > 0 {
		if err := w.Fund(bounded(t), b.address, money.New(tokens)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// authorize returns an authorization for the first requirement of a challenge, valid for a minute.
func (b buyer) authorize(t *testing.T, q x402.Requirement) x402.Authorization {
	t.Helper()
	a := x402.Authorization{From: b.address, To: q.PayTo, Value: q.Amount, ValidBefore: uint64(time.Now().Add(time.Minute).Unix())}
	if _, err := rand.Read(a.Nonce[:]); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a payload for the first requirement of a challenge.
func (b buyer) sign(t *testing.T, c x402.Challenge, a x402.Authorization) x402.Payload {
	t.Helper()
	n, asset, err := c.Accepts[0].Supports()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := x402test.Sign(a.Digest(asset, n.ChainID), b.key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Offer(0).Payload(a, signature)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pay returns the payload that a challenge demands.
func (b buyer) pay(t *testing.T, c x402.Challenge) x402.Payload {
	t.Helper()
	return b.sign(t, c, b.authorize(t, c.Accepts[0]))
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// request asks the seller. It pays with p, if p is not nil.
func request(t *testing.T, w *World, method, url, body string, p *x402.Payload) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(bounded(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if p != nil {
		r.Header.Set(p.HeaderName(), p.Header())
	}
	resp, err := w.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// challenge returns the challenge of an answer.
func (a answer) challenge(t *testing.T) x402.Challenge {
	t.Helper()
	c, found, err := x402.FromResponse(a.header, []byte(a.body))
	if a.status != http.StatusPaymentRequired || !found || err != nil {
		t.Fatalf("no challenge: status %d, %v, %s", a.status, err, a.body)
	}
	return c
}

// receipt returns the receipt of an answer.
func (a answer) receipt(t *testing.T) x402.Receipt {
	t.Helper()
	r, found, err := x402.ReceiptFromHeader(a.header)
	if !found || err != nil {
		t.Fatalf("no receipt: status %d, %v, %s", a.status, err, a.body)
	}
	return r
}

// facilitate calls the facilitator and decodes its answer.
func facilitate(t *testing.T, w *World, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(bounded(t), http.MethodPost, w.FacilitatorURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var verdict map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&verdict); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, verdict
}

// callBody returns the body of a facilitator call about a payload and its requirement.
func callBody(t *testing.T, p x402.Payload, q x402.Requirement) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(map[string]any{
		"x402Version": p.Version, "paymentPayload": p.JSON, "paymentRequirements": q.Raw,
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func wantBalance(t *testing.T, w *World, owner x402.Address, want uint64) {
	t.Helper()
	got, err := w.Balance(bounded(t), owner)
	if err != nil || got != money.New(want) {
		t.Errorf("balance of %s is %s, %v, want %d", owner, got, err, want)
	}
}
