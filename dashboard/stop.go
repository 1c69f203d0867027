package dashboard

import (
	"net/http"
	"slices"

	"github.com/purserpay/purser/dashboard/session"
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
		_, err := d.Books.StopKey(r.Context(), k.ID, do, "")
		return answer{redirect: keyPath(k.ID), say: say}, err
	})
}

type revokePage struct {
	Name, Path string
	Wallets    []link
}

// askRevokeKey serves GET /dashboard/keys/{id}/revoke. It demands a recent sign-in.
func (d *dashboard) askRevokeKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	switch {
	case k.Revoked():
		return answer{redirect: keyPath(k.ID)}, nil
	case !v.Recent(v.now):
		return answer{redirect: session.Again(keyPath(k.ID) + "/revoke")}, nil
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
func (d *dashboard) revokeKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	if !v.Recent(v.now) {
		return answer{redirect: session.Again(keyPath(k.ID) + "/revoke")}, nil
	}
	_, err := d.Books.StopKey(r.Context(), k.ID, pay.StopRevoke, "")
	return answer{redirect: keyPath(k.ID), say: saidKeyRevoked}, err
}
