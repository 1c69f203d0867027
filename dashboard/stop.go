package dashboard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/pay"
)

// keyState says whether a key pays, for its page and for the list of keys.
type keyState struct {
	Revoked, Paused bool
	Operator        bool // the operator paused it, and the visitor cannot resume it
	Since           moment
	Reason          string
}

func keyStateOf(v visit, k pay.Key) keyState {
	switch {
	case k.Revoked():
		return keyState{Revoked: true, Since: momentOf(k.RevokedAt, inText)}
	case k.Paused != nil:
		return keyState{
			Paused: true, Operator: k.Paused.By.Kind == pay.ActorOperator && !v.operator(), Since: momentOf(k.Paused.At, inText), Reason: cut(k.Paused.Reason, 500),
		}
	}
	return keyState{}
}

// stopKey returns a view that pauses or resumes a key: POST /dashboard/keys/{id}/pause and
// …/resume.
func (d *dashboard) stopKey(do pay.Stop, say said) view {
	return d.ofKey(func(r *http.Request, _ visit, k pay.Key) (answer, error) {
		reason := ""
		if do == pay.StopPause {
			reason = strings.TrimSpace(r.PostForm.Get("reason"))
		}
		_, err := d.Books.StopKey(r.Context(), k.ID, do, reason)
		return answer{redirect: keyPath(k.ID), say: say}, err
	})
}

type revokePage struct {
	Name, Path string
	Wallets    []link
}

// askRevokeKey serves GET /dashboard/keys/{id}/revoke.
func (d *dashboard) askRevokeKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	if k.Revoked() {
		return answer{redirect: keyPath(k.ID)}, nil
	}
	wallets, err := d.Books.ListWallets(r.Context(), k)
	if err != nil {
		return answer{}, err
	}
	wallets = slices.DeleteFunc(wallets, func(w pay.Wallet) bool { return w.KeyID != k.ID })
	p := revokePage{Name: label(k), Path: keyPath(k.ID)}
	p.Wallets, err = d.walletLinks(r.Context(), v, k, wallets)
	return answer{page: "key-revoke", title: "Revoke a key", nav: "/dashboard/keys", body: p}, err
}

// revokeKey serves POST /dashboard/keys/{id}/revoke.
func (d *dashboard) revokeKey(r *http.Request, _ visit, k pay.Key) (answer, error) {
	_, err := d.Books.StopKey(r.Context(), k.ID, pay.StopRevoke, "")
	return answer{redirect: keyPath(k.ID), say: saidKeyRevoked}, err
}

type reissuePage struct {
	Name, Path string
	Kept       bool
}

// askReissueKey serves GET /dashboard/keys/{id}/reissue.
func (d *dashboard) askReissueKey(_ *http.Request, _ visit, k pay.Key) (answer, error) {
	if k.Revoked() {
		return answer{redirect: keyPath(k.ID)}, nil
	}
	return answer{page: "key-reissue", title: "Reissue a key", nav: "/dashboard/keys", body: reissuePage{label(k), keyPath(k.ID), k.Kept()}}, nil
}

// reissueKey serves POST /dashboard/keys/{id}/reissue. The key's page then shows the new secret once.
func (d *dashboard) reissueKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	k, secret, err := d.Books.ReissueKey(r.Context(), k.ID)
	if err != nil {
		return answer{}, err
	}
	d.once.put(onceFor{v.Session, v.Account.ID, k.ID}, onceSecret{secret: secret, made: true}, v.now)
	return answer{redirect: keyPath(k.ID), say: saidKeyReissued}, nil
}
