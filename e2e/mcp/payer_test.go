package mcp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// funds is the first balance of a wallet: one dollar.
const funds = 1_000_000

// payer pays each challenge once, with nothing of purser but package x402.
type payer struct {
	key    *ecdsa.PrivateKey
	wallet x402.Address
}

func newPayer(t testing.TB) *payer {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	p := &payer{key, x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))}
	env.fund(t, p.wallet)
	return p
}

func (w *world) fund(t testing.TB, wallet x402.Address) {
	t.Helper()
	if err := w.Money.Fund(t.Context(), wallet, money.New(funds)); err != nil {
		t.Fatal(err)
	}
}

// paying is a sender that pays what challenges ask.
func (p *payer) paying(send sender) sender {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		var asked struct {
			ID     json.RawMessage
			Method string
		}
		res, err := send(r, body)
		if err != nil || json.Unmarshal(body, &asked) != nil || asked.Method != "tools/call" {
			return res, err
		}
		if res.StatusCode == http.StatusPaymentRequired {
			return p.answer402(send, r, body, res)
		}
		read, m, err := answerTo(res, asked.ID)
		terms, by, found := m.terms()
		if err != nil || !found {
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(read), res.Body), res.Body}
			return res, nil
		}
		_ = res.Body.Close()
		payload, err := p.pay(terms)
		if err != nil {
			return nil, err
		}
		paid, err := withPayment(body, by, payload)
		if err != nil {
			return nil, err
		}
		return send(r, paid)
	}
}

// answer402 pays a challenge of HTTP.
func (p *payer) answer402(send sender, r *http.Request, body []byte, res *http.Response) (*http.Response, error) {
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	challenge, _, err := x402.FromResponse(res.Header, text)
	if err != nil {
		return nil, err
	}
	payload, err := p.sign(challenge)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(payload.HeaderName(), payload.Header())
	return send(r, body)
}

func (p *payer) pay(terms json.RawMessage) (x402.Payload, error) {
	challenge, err := x402.DecodeBody(terms)
	if err != nil {
		return x402.Payload{}, err
	}
	return p.sign(challenge)
}

// sign signs what the first requirement of a challenge asks.
func (p *payer) sign(challenge x402.Challenge) (x402.Payload, error) {
	want := challenge.Accepts[0]
	network, asset, err := want.Supports()
	if err != nil {
		return x402.Payload{}, fmt.Errorf("requirement %s: %w", want.Raw, err)
	}
	a := x402.Authorization{
		From: p.wallet, To: want.PayTo, Value: want.Amount, ValidBefore: uint64(time.Now().Add(want.MaxTimeout).Unix()),
	}
	if _, err := rand.Read(a.Nonce[:]); err != nil {
		return x402.Payload{}, err
	}
	signature, err := x402test.Sign(a.Digest(asset, network.ChainID), p.key)
	if err != nil {
		return x402.Payload{}, err
	}
	return challenge.Offer(0).Payload(a, signature)
}

// withPayment puts a payload where a dialect wants it.
func withPayment(body []byte, by dialect, payload x402.Payload) ([]byte, error) {
	name, value := "x402/payment", any(payload.JSON)
	if by == dialectCloudflare || by == dialectVercel {
		value = payload.Header()
	}
	if by == dialectVercel {
		name = "x402.payment"
	}
	var asked, params, meta map[string]json.RawMessage
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(asked["params"], &params); err != nil {
		return nil, err
	}
	if params["_meta"] != nil {
		if err := json.Unmarshal(params["_meta"], &meta); err != nil {
			return nil, err
		}
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	var err error
	for _, step := range []struct {
		into  map[string]json.RawMessage
		name  string
		value any
	}{{meta, name, value}, {params, "_meta", meta}, {asked, "params", params}} {
		if step.into[step.name], err = json.Marshal(step.value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(asked)
}
