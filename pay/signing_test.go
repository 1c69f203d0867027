package pay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// A signer outside the process signs, and its answer is lost. A repeat with another authorization
// would leave two that are signed.
func TestLostSignature(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*keyring, bool){
		"no answer": func(k *keyring, on bool) { k.silent = on },
		"wrong":     func(k *keyring, on bool) { k.wrong = on },
	} {
		for _, idem := range []string{"", "order-1"} {
			w := newWorld(t, nil)
			w.set(policy.Policy{DailyBudget: usdc(10)})
			r := w.rest(pay.SettlePayer, "https://a.example/x", "10", idem)
			lose(w.ring, true)
			var first *pay.Payment
			for range 3 {
				p := w.mustFail(r)
				w.quiet()
				if p = w.payment(p.ID); p.State != pay.Void || !p.Doubted || w.placeCount() != "0" {
					t.Fatalf("%s: %s, doubted %t, place %s", name, p.State, p.Doubted, w.placeCount())
				}
				if first == nil {
					first = p
				}
				if p.Authorization != first.Authorization {
					t.Fatalf("%s: the repeat is authorization %s after %s", name, p.Authorization.Nonce, first.Authorization.Nonce)
				}
				w.spends(buy{amount: 1}, "daily-budget")
			}
			lose(w.ring, false)
			if p := w.mustPay(r); p.ID != first.ID || p.State != pay.Settled || p.Authorization != first.Authorization {
				t.Errorf("%s: paid by payment %s of %s, %s", name, p.ID, first.ID, p.State)
			}
			w.quiet()
			if moves := w.chain.moves(); moves != 1 {
				t.Errorf("%s: %d moves", name, moves)
			}
			w.checkBooks()
		}
	}
}

// The doubt about a signature that was lost ends by the chain's word, and frees the money.
func TestLostSignatureExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(10)})
	w.ring.silent = true
	p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "10", ""))
	w.quiet()
	w.ring.silent = false
	w.chain.advance(p.ValidBefore().Sub(w.chain.clock()) + 10*time.Second)
	w.recoverAll()
	if p = w.payment(p.ID); p.State != pay.Void || p.Doubted {
		t.Errorf("%s, doubted %t", p.State, p.Doubted)
	}
	w.mustPay(w.rest(pay.SettlePayer, "https://a.example/y", "10", ""))
	w.checkBooks()
}

// A signer that was provably not reached has signed nothing: the money is free at once.
func TestSignerThatWasNotReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(10)})
	r := w.rest(pay.SettlePayer, "https://a.example/x", "10", "")
	w.ring.fail = true
	_, err := w.payer.Pay(context.Background(), r)
	var failed *pay.FailedError
	if !errors.As(err, &failed) || failed.Detail != "the wallet could not sign: the test signer is down" || pay.Code(failed.Cause) != pay.CodeSigner {
		t.Fatalf("error %v", err)
	}
	w.quiet()
	if p := w.payment(failed.Payment.ID); p.State != pay.Void || p.Doubted {
		t.Errorf("%s, doubted %t", p.State, p.Doubted)
	}
	w.ring.fail = false
	if p := w.mustPay(r); p.ID == failed.Payment.ID {
		t.Error("a payment that was never signed was revived")
	}
	w.checkBooks()
}

// watchingRing is a keyring that tells of each message that it is asked to sign.
type watchingRing struct {
	*keyring
	asked func(pay.Wallet, pay.Message)
}

func (r watchingRing) Sign(ctx context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	r.asked(w, m)
	return r.keyring.Sign(ctx, w, m)
}

// No signer is asked before the limits are checked and reserved, and the payment is journaled.
func TestLimitsBeforeTheSigner(t *testing.T) {
	t.Parallel()
	asked := 0
	var w *world
	w = newWorld(t, func(o *pay.Options) {
		o.Wallets = watchingRing{o.Wallets.(*keyring), func(_ pay.Wallet, m pay.Message) {
			asked++
			rows := w.store.payments()
			if len(rows) != asked || rows[0].State != pay.Open || rows[0].Authorization.From != m.From || len(rows[0].Reservations) == 0 {
				t.Errorf("asked to sign while the journal has %+v", rows)
			}
			if network, asset := x402.Networks()[0], x402.Networks()[0].Assets[0]; rows[0].Authorization.Digest(asset, network.ChainID) != m.Digest {
				t.Error("asked to sign another message than the journaled one")
			}
		}}
	})
	w.set(policy.Policy{MaxPayment: usdc(10), DailyBudget: usdc(15)})
	w.spends(buy{amount: 11}, "per-payment")
	if asked != 0 {
		t.Fatalf("asked %d times for a payment above the limit", asked)
	}
	w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "10", ""))
	w.spends(buy{amount: 10}, "daily-budget")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// After a change of provider, a key pays with a wallet of the one in use.
func TestWalletOfTheProviderInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil) // its wallet is local
	ours := pay.Wallet{
		ID: "zz-ours", KeyID: w.key.ID, ProviderID: "test_1", Network: "base", Address: new(x402.EVMAddress([20]byte{1})), Created: w.chain.clock(),
	}
	if err := w.store.CreateWallet(t.Context(), pay.NewWallet{Wallet: ours}, 10); err != nil {
		t.Fatal(err)
	}
	w.ring.fail = true
	if p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "10", "")); p.WalletID != ours.ID {
		t.Errorf("wallet %s", p.WalletID)
	}
}
