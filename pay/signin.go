package pay

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// SignInRequest is a request that a seller has answered with a challenge.
type SignInRequest struct {
	Key       Key
	Door      policy.Door
	Challenge x402.Challenge
	// URL names the place to which purser has sent the request.
	URL *url.URL
}

// Errors of [Payer.SignIn] after which the request is paid for like any other.
var (
	// ErrNoSignIn: none is offered, the policy does not list the host, or the key has not paid for
	// the resource.
	ErrNoSignIn = errors.New("no sign-in for this request")
	// ErrCannotSignIn: the wallet's provider signs payments only.
	ErrCannotSignIn = errors.New("the wallet's provider cannot sign in")
	// ErrSignInRepeated: purser has answered a sign-in with the same nonce.
	ErrSignInRepeated = errors.New("the nonce of the sign-in was used before")
)

// SigningIn is a further method of a [Wallets] that can sign in. SignIn signs the digest of the message,
// as personal_sign does with its text. A signer must offer no way to sign a text of another's choice.
// An error from outside this process is a [*SignerError].
type SigningIn interface {
	SignIn(ctx context.Context, w Wallet, m x402.SignIn) (x402.Signature, error)
}

const (
	// maxPaidBefore bounds the payments to a host among which a paid resource is looked for.
	maxPaidBefore = 200
	// maxAsked bounds those of them about which the chain is asked.
	maxAsked = 3
	// maxSignIns bounds the memory of nonces. The site in the message protects against the others.
	maxSignIns = 10_000
)

// SignIn signs in to the site that answered a request with a challenge, if this key has paid for the
// resource before. It returns the value of [x402.HeaderSignIn], with which the request may be sent once
// more. It moves no money, and its errors say only that the request must be paid for.
func (p *Payer) SignIn(ctx context.Context, r SignInRequest) (string, error) {
	if !p.maySignIn(r) {
		return "", ErrNoSignIn
	}
	if err := p.enter(); err != nil {
		return "", err
	}
	defer p.background.Done()
	if pause, err := p.store.Pause(ctx); err != nil || pause != nil {
		return "", errors.Join(ErrNoSignIn, err)
	}
	w, n, err := p.paidBefore(ctx, r)
	if err != nil {
		return "", err
	}
	m, err := r.Challenge.SignIn(r.URL, n, *w.Address, p.now())
	if err != nil {
		return "", fmt.Errorf("reading a sign-in: %w", err)
	}
	signer, can := p.opts.Wallets.(SigningIn)
	if !can {
		return "", ErrCannotSignIn
	}
	if again, _ := p.signedIn.ContainsOrAdd(HashOf(m.Nonce()), struct{}{}); again {
		return "", ErrSignInRepeated
	}
	sig, err := signer.SignIn(ctx, w, m)
	if err != nil {
		return "", fmt.Errorf("signing in with wallet %s: %w", w.ProviderID, err)
	}
	if _, proven := p.opts.Wallets.(KeyProving); !proven {
		if by, err := x402.Recover(m.Digest(), sig); err != nil || by != m.Address() {
			return "", fmt.Errorf("signing in with wallet %s: %w", w.ProviderID, &SignerError{
				Provider: p.opts.Wallets.Name(), Fault: SignerUnreadable, Detail: "gave a wrong signature of a sign-in", Cause: err,
			})
		}
	}
	return m.Header(sig)
}

// maySignIn reports whether the policy lists the host, and whether there is something to sign.
// A challenge without requirements is for sign-ins alone: nothing can have been paid there.
func (p *Payer) maySignIn(r SignInRequest) bool {
	pol, at := p.PolicyOf(r.Key, r.Door), policy.SiteIn(r.URL)
	return policy.CheckHost(r.URL) == nil && pol.SignsIn(at) && pol.Opens(r.Door) && pol.AllowsHost(r.Door, at) == nil && r.Key.Paused == nil &&
		len(r.Challenge.Accepts) > 0 && r.Challenge.OffersSignIn()
}

// paidBefore finds the wallet and network with which the key has paid for the resource, which is the
// site and the path, as sellers know it. Payments count whose requests purser has sent itself, and about
// which the chain agrees, because other keys may have paid there from the same wallet. ErrNoSignIn if
// there is none whose wallet the key may still use.
func (p *Payer) paidBefore(ctx context.Context, r SignInRequest) (Wallet, x402.Network, error) {
	page, err := p.store.ListSpend(ctx, []string{r.Key.ID}, OrganizationSpendQuery{Host: policy.SiteIn(r.URL).String(), Limit: maxPaidBefore})
	if err != nil {
		return Wallet{}, x402.Network{}, fmt.Errorf("looking for what was paid: %w", err)
	}
	asked := 0
	for _, e := range page.Entries {
		if e.Corrects != "" || !e.Door.Dials() || !sameResource(r.URL, e.RequestURL) {
			continue
		}
		row, err := p.store.Payment(ctx, e.PaymentID)
		if err != nil {
			return Wallet{}, x402.Network{}, fmt.Errorf("looking for what was paid: %w", err)
		}
		n, enabled := p.network(row.Terms.Network)
		if row.State != Settled || row.Disputed || !enabled {
			continue
		}
		if row.Claimed() {
			if asked++; asked > maxAsked || !p.proveOne(ctx, row) {
				continue
			}
		} else if row.Receipted && !row.Confirmed && !p.watches(n.Name) {
			continue // without an RPC, the receipt that the key has posted is its word
		}
		usable, err := p.store.Wallets(ctx, r.Key.ID)
		if err != nil {
			return Wallet{}, x402.Network{}, fmt.Errorf("looking for what was paid: %w", err)
		}
		for _, w := range usable {
			if w.ID == row.WalletID && w.Address != nil && *w.Address == row.Authorization.From {
				return w, n, nil
			}
		}
	}
	return Wallet{}, x402.Network{}, ErrNoSignIn
}

// sameResource reports whether a booked URL names the resource of another one, whatever its query.
func sameResource(asked *url.URL, booked string) bool {
	u, err := url.Parse(booked)
	return err == nil && u.Scheme == asked.Scheme && policy.SiteIn(u) == policy.SiteIn(asked) && pathOf(u) == pathOf(asked)
}

func pathOf(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}
