package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// The wallets of a new key.
const (
	walletOwn    = "own"
	walletShared = "shared" // that of the deployment
	walletNone   = "none"
)

// createForm holds what was typed, and what is wrong with it.
type createForm struct {
	Label      string
	LabelWrong *wrong
	Limits     []editorField
	MoreOpen   bool
	Wallet     string
}

// createLimits are the fields of limits in the create form. The others follow on the key's page.
var createLimits = []string{"max_payment", "daily_budget", "monthly_budget"}

func (d *dashboard) createForm(v visit, form url.Values, wrongs map[string]*wrong) createForm {
	c := createForm{Label: cut(form.Get("label"), 200), LabelWrong: wrongs["label"], Wallet: form.Get("wallet")}
	if c.Wallet == "" {
		c.Wallet = walletOwn
		if v.operator() {
			c.Wallet = walletShared
		}
	}
	kept := url.Values{}
	for _, name := range createLimits {
		kept[name] = form[name]
		c.MoreOpen = c.MoreOpen || form.Get(name) != ""
	}
	for _, f := range editor(kept, d.defaultsOf(pay.Key{Operator: v.operator()}), wrongs, false) {
		if f.Name == "max_payment" || f.Name == "daily_budget" || f.Name == "monthly_budget" {
			c.Limits = append(c.Limits, f)
		}
	}
	return c
}

// createKey serves POST /dashboard/keys. The new key's page then shows the key once.
func (d *dashboard) createKey(r *http.Request, v visit) (answer, error) {
	form := r.PostForm
	pol, wrongs := readLimits(form)
	if len(wrongs) > 0 {
		return d.keysWith(r, v, http.StatusUnprocessableEntity, keysPage{Create: d.createForm(v, form, wrongs)})
	}
	var own *policy.Policy
	if len(typedOf(pol)) > 0 {
		own = &pol
	}
	if len(d.Payer.Raises(pay.Key{Operator: v.operator()}, own)) > 0 && !v.Fresh(v.now) {
		back := url.Values{"label": form["label"], "wallet": form["wallet"]}
		for _, name := range createLimits {
			back[name] = form[name]
		}
		return answer{redirect: session.Again("/dashboard/keys?" + back.Encode())}, nil
	}
	name := strings.TrimSpace(form.Get("label"))
	k, secret, err := d.makeKey(r.Context(), v, name, own, form.Get("wallet"))
	if e, ok := errors.AsType[*pay.InputError](err); ok && e.Field == "label" {
		w := &wrong{Field: "label", Text: "A label has at most 200 characters."}
		return d.keysWith(r, v, http.StatusUnprocessableEntity, keysPage{Create: d.createForm(v, form, map[string]*wrong{"label": w})})
	}
	if err != nil {
		return answer{}, err
	}
	d.Logger.Info("API key created", "key", k.ID, "organization", k.OrganizationID, "by", v.Actor().String())
	d.once.put(onceFor{v.Session, v.Account.ID, k.ID}, onceSecret{secret: secret, made: true}, v.now)
	a := answer{redirect: keyPath(k.ID), say: saidKeyCreated}
	if !k.Kept() {
		a.say = saidKeyCreatedOnce
	}
	return a, nil
}

// makeKey makes a key of the visitor's organization, with its wallet. An operator's is like those of
// `purser keys create`. If the wallet cannot be made, the key is revoked: nothing is left that could
// not pay.
func (d *dashboard) makeKey(ctx context.Context, v visit, label string, pol *policy.Policy, wallet string) (pay.Key, string, error) {
	want := books.KeyRequest{Label: label, Policy: pol, OrganizationID: v.Account.OrganizationID}
	if v.operator() {
		want.OrganizationID, want.Operator = "", true
	} else if use, err := d.Books.UsageIn(ctx, v.scope()); err != nil {
		return pay.Key{}, "", err
	} else if wallet == walletOwn && use.Wallets >= use.Plan.Wallets {
		return pay.Key{}, "", pay.ErrWalletLimit
	}
	k, secret, err := d.Books.CreateKey(ctx, want)
	switch {
	case err != nil:
		return k, secret, err
	case v.operator() && wallet != walletOwn:
		_, err = d.OperatorKeys.Wallet(ctx, k, d.OperatorKeys.Network)
	case wallet == walletOwn && v.operator():
		_, err = d.Books.CreateWallet(ctx, k, d.OperatorKeys.Network)
	case wallet == walletOwn:
		_, err = d.Books.CreateWallet(ctx, k, "")
	}
	if err == nil {
		return k, secret, nil
	}
	if _, undone := d.Books.StopKey(context.WithoutCancel(ctx), k.ID, pay.KeyStop{Do: pay.StopRevoke, Reason: "its wallet could not be made"}); undone != nil {
		d.Logger.Error("a key without a wallet is left", "key", k.ID, "error", undone)
	}
	return pay.Key{}, "", err
}
