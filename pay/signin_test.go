package pay_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// signingIn is a keyring that can sign in.
type signingIn struct {
	*keyring
	asked int
}

func (s *signingIn) SignIn(_ context.Context, w pay.Wallet, m x402.SignIn) (x402.Signature, error) {
	s.asked++
	return s.Sign(context.Background(), w, pay.Message{From: m.Address(), Digest: m.Digest()})
}

// member is a world whose key has paid for https://api.example.com/member, and may sign in there.
type member struct {
	*world
	ring *signingIn
}

func newMember(t *testing.T, change func(*pay.Options)) *member {
	t.Helper()
	m := &member{}
	m.world = newWorld(t, func(o *pay.Options) {
		m.ring = &signingIn{keyring: o.Wallets.(*keyring)}
		o.Wallets, o.DefaultPolicy.SignInHosts = m.ring, []string{"api.example.com"}
		if change != nil {
			change(o)
		}
	})
	m.buy("https://api.example.com/member?page=1")
	return m
}

// buy pays for a page.
func (m *member) buy(url string) *pay.Payment {
	m.t.Helper()
	a := m.mustOpen(m.proxied(url, "100", ""))
	tx := m.sellerMoves(a.Payload())
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
	a.Finish(true)
	m.quiet()
	return m.payment(a.Payment().ID)
}

// asks is a request that was answered with a challenge with a sign-in.
func (m *member) asks(rawURL, nonce string) pay.SignInRequest {
	m.t.Helper()
	u := must(url.Parse(rawURL))
	c := challenge(m.t, "100")
	c.Extensions = fmt.Appendf(nil, `{"sign-in-with-x":{"info":{"domain":%q,"uri":%q,"version":"1","nonce":%q,"issuedAt":%q},`+
		`"supportedChains":[{"chainId":"eip155:8453","type":"eip191"}]}}`, u.Host, u.Scheme+"://"+u.Host+"/", nonce, m.chain.clock().Format(time.RFC3339))
	return pay.SignInRequest{Key: m.key, Door: policy.DoorProxy, Challenge: c, URL: u}
}

// What the key has paid for, it signs in to, once per nonce, with the wallet that has paid.
func TestSignIn(t *testing.T) {
	t.Parallel()
	m := newMember(t, nil)
	value := must(m.payer.SignIn(t.Context(), m.asks("https://api.example.com/member?page=2", "nonce0001")))
	var proof struct{ Address, Nonce, Signature string }
	if err := json.Unmarshal(must(base64.StdEncoding.DecodeString(value)), &proof); err != nil {
		t.Fatal(err)
	}
	if proof.Address != m.store.wallet().Address.String() || proof.Nonce != "nonce0001" || len(proof.Signature) != 132 {
		t.Errorf("%+v", proof)
	}
	if len(m.store.payments()) != 1 || m.chain.moves() != 1 {
		t.Error("money moved")
	}
	_, err := m.payer.SignIn(t.Context(), m.asks("https://api.example.com/member", "nonce0001"))
	if !errors.Is(err, pay.ErrSignInRepeated) || m.ring.asked != 1 {
		t.Errorf("the same nonce: %v, signed %d times", err, m.ring.asked)
	}
}

// Nothing is signed for what was not paid by this key, at this place, with a wallet that it still has.
func TestNoSignIn(t *testing.T) {
	t.Parallel()
	const page = "https://api.example.com/member"
	n := 0
	for name, change := range map[string]func(*member, *pay.SignInRequest){
		"another page":   func(_ *member, r *pay.SignInRequest) { r.URL.Path = "/member/" },
		"another port":   func(_ *member, r *pay.SignInRequest) { r.URL.Host += ":8443" },
		"another scheme": func(_ *member, r *pay.SignInRequest) { r.URL.Scheme = "http" },
		"another host":   func(_ *member, r *pay.SignInRequest) { r.URL.Host = "b.example.com" },
		"another key":    func(m *member, r *pay.SignInRequest) { r.Key = m.anotherKey() },
		"a paused key":   func(_ *member, r *pay.SignInRequest) { r.Key.Paused = &pay.Pause{} },
		"no requirement": func(_ *member, r *pay.SignInRequest) { r.Challenge.Accepts = nil },
		"no sign-in":     func(_ *member, r *pay.SignInRequest) { r.Challenge.Extensions = nil },
		"not on REST":    func(_ *member, r *pay.SignInRequest) { r.Door = policy.DoorAPI },
		"an unlisted host": func(_ *member, r *pay.SignInRequest) {
			r.Key.Policy = &policy.Policy{SignInHosts: []string{"b.example.com"}}
		},
		"a denied host": func(_ *member, r *pay.SignInRequest) {
			r.Key.Policy = &policy.Policy{DenyHosts: []string{"*.example.com"}}
		},
		"a door that is shut": func(_ *member, r *pay.SignInRequest) {
			r.Key.Policy = &policy.Policy{Doors: []policy.Door{policy.DoorAPI}}
		},
		"a pause": func(m *member, _ *pay.SignInRequest) {
			must(0, m.store.SetPause(context.Background(), &pay.Pause{At: m.chain.clock()}))
		},
		"a wallet that is out": func(m *member, _ *pay.SignInRequest) {
			must(0, m.books.DeleteWallet(context.Background(), m.key, m.store.wallet().ID))
		},
		"a network that is out": func(m *member, _ *pay.SignInRequest) {
			polygon, _ := x402.NetworkByWire("polygon")
			m.opts.Networks = []x402.Network{polygon}
			m.restart()
		},
	} {
		m := newMember(t, nil)
		r := m.asks(page, fmt.Sprintf("nonce%04d", n))
		n++
		change(m, &r)
		if _, err := m.payer.SignIn(t.Context(), r); !errors.Is(err, pay.ErrNoSignIn) || m.ring.asked != 0 {
			t.Errorf("%s: %v, signed %d times", name, err, m.ring.asked)
		}
	}

	// A settlement that the chain has disproved bought nothing, and one that is open may not have.
	m := newMember(t, nil)
	a := m.mustOpen(m.proxied("https://api.example.com/lied", "100", ""))
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: "0x" + strings.Repeat("ab", 32)})
	a.Finish(true)
	m.quiet()
	m.recoverAll()
	if p := m.payment(a.Payment().ID); !p.Disputed {
		t.Fatalf("not disputed: %+v", p)
	}
	if _, err := m.payer.SignIn(t.Context(), m.asks("https://api.example.com/lied", "nonce9001")); !errors.Is(err, pay.ErrNoSignIn) {
		t.Errorf("after a dispute: %v", err)
	}
	open := m.mustOpen(m.proxied("https://api.example.com/open", "100", ""))
	open.Finish(true)
	m.quiet()
	if _, err := m.payer.SignIn(t.Context(), m.asks("https://api.example.com/open", "nonce9002")); !errors.Is(err, pay.ErrNoSignIn) {
		t.Errorf("while it is open: %v", err)
	}
}

// A key signs in for what it has bought itself, from a wallet that other keys have bought with, too. What it
// only says on REST, or by a receipt that it has made up, buys no sign-in as that wallet.
func TestNoSignInForWhatWasOnlySaid(t *testing.T) {
	t.Parallel()
	const page = "https://api.example.com/member"
	for name, buy := range map[string]func(m *member, k pay.Key){
		"nothing": func(*member, pay.Key) {},
		"a payment to anybody on REST": func(m *member, k pay.Key) {
			r := m.rest(pay.SettlePayer, page, "1", "")
			r.Key = k
			a := m.mustBegin(r)
			a.Finish(true)
		},
		"a payment of another seller on REST, with its receipt": func(m *member, k pay.Key) {
			r := m.rest(pay.SettleSeller, page, "1", "")
			r.Key = k
			a := m.mustBegin(r)
			tx := m.sellerMoves(a.Payload())
			a.Finish(true)
			m.quiet()
			m.receipt(k, a.Payment().ID, tx)
		},
		"a receipt that is made up": func(m *member, k pay.Key) {
			r := m.proxied(page, "100", "")
			r.Key = k
			a := m.mustOpen(r)
			a.Finish(false)
			m.quiet()
			m.receipt(k, a.Payment().ID, invented(1))
		},
	} {
		for _, watched := range []bool{true, false} {
			m := newMember(t, func(o *pay.Options) {
				if !watched {
					o.Chain = nil
				}
			})
			other := m.sharing()
			buy(m, other)
			m.quiet()
			r := m.asks(page, "nonce0001")
			r.Key = other
			if _, err := m.payer.SignIn(t.Context(), r); !errors.Is(err, pay.ErrNoSignIn) || m.ring.asked != 0 {
				t.Errorf("%s, watched %v: %v, signed %d times", name, watched, err, m.ring.asked)
			}
			own := m.proxied(page, "100", "")
			own.Key = other
			own.Anew = true
			a := m.mustOpen(own)
			if a.Payment().State == pay.Open {
				m.sellerMoves(a.Payload())
				a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: m.chain.transaction(a.Payment().Authorization.Nonce)})
			}
			a.Finish(true)
			m.quiet()
			r = m.asks(page, "nonce0002")
			r.Key = other
			if _, err := m.payer.SignIn(t.Context(), r); err != nil {
				t.Errorf("%s, watched %v: %v for what the key has bought", name, watched, err)
			}
		}
	}
}

func (m *member) anotherKey() pay.Key {
	key, _, err := m.books.CreateKey(context.Background(), books.KeyRequest{Label: "another"})
	if err != nil {
		m.t.Fatal(err)
	}
	must(m.books.CreateWallet(context.Background(), key, "base"))
	return key
}

// What must not be signed is not shown to the signer, and a signature of another key does not leave.
func TestSignInFails(t *testing.T) {
	t.Parallel()
	m := newMember(t, nil)
	const page = "https://api.example.com/member"
	r := m.asks(page, "nonce0001")
	r.Challenge.Extensions = []byte(strings.Replace(string(r.Challenge.Extensions), `"domain":"api.example.com"`, `"domain":"bank.example"`, 1))
	var field *x402.FieldError
	if _, err := m.payer.SignIn(t.Context(), r); !errors.As(err, &field) || field.Field != "domain" || m.ring.asked != 0 {
		t.Errorf("another domain: %v", err)
	}
	m.ring.wrong = true
	if value, err := m.payer.SignIn(t.Context(), m.asks(page, "nonce0002")); pay.Code(err) != pay.CodeSigner || value != "" {
		t.Errorf("another key's signature: %q, %v", value, err)
	}
	m.ring.wrong, m.ring.fail = false, true
	if _, err := m.payer.SignIn(t.Context(), m.asks(page, "nonce0003")); pay.Code(err) != pay.CodeSigner {
		t.Errorf("a signer that is down: %v", err)
	}
	m.opts.Wallets = m.ring.keyring
	m.restart()
	if _, err := m.payer.SignIn(t.Context(), m.asks(page, "nonce0004")); !errors.Is(err, pay.ErrCannotSignIn) {
		t.Errorf("a signer that cannot: %v", err)
	}
}

// A 402 that takes no payment is unsupported, and no malformed challenge.
func TestSignInOnly(t *testing.T) {
	t.Parallel()
	m := newMember(t, nil)
	r := m.proxied("https://api.example.com/only", "100", "")
	r.Challenge = m.asks("https://api.example.com/only", "nonce0001").Challenge
	r.Challenge.Accepts = nil
	_, err := m.payer.Open(t.Context(), r)
	unsupported, _ := errors.AsType[*x402.UnsupportedError](err)
	if unsupported == nil || unsupported.Value != "sign-in-with-x" || pay.Code(err) != pay.CodeUnsupported {
		t.Errorf("%v", err)
	}
}
