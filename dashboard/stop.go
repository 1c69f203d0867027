package dashboard

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// keyState says whether a key pays, for its page and for the list of keys.
type keyState struct {
	Revoked, Paused bool
	Operator        bool // the operator paused it, and the visitor cannot resume it
	Since           moment
	Reason          string
	Earlier         *moment // until when the earlier secret works; nil: it does not
}

func keyStateOf(v visit, k pay.Key) (s keyState) {
	if until := k.EarlierUntil(v.now); !until.IsZero() {
		s.Earlier = new(momentOf(until, inText))
	}
	switch {
	case k.Revoked():
		s.Revoked, s.Since = true, momentOf(k.RevokedAt, inText)
	case k.Paused != nil:
		s.Paused, s.Operator = true, k.Paused.By.Kind == pay.ActorOperator && !v.operator()
		s.Since, s.Reason = momentOf(k.Paused.At, inText), cut(k.Paused.Reason, 500)
	}
	return s
}

// pausedHost is a host that a key pays nothing until it is resumed.
type pausedHost struct {
	Host     string
	Operator bool // the operator paused it, and the visitor cannot resume it
	Since    moment
	Reason   string
}

func pausedHosts(v visit, k pay.Key) (list []pausedHost) {
	for _, host := range slices.Sorted(maps.Keys(k.PausedHosts)) {
		p := k.PausedHosts[host]
		list = append(list, pausedHost{host, p.By.Kind == pay.ActorOperator && !v.operator(), momentOf(p.At, inText), cut(p.Reason, 500)})
	}
	return list
}

// stopKey returns a view that pauses or resumes a key, or ends its overlap: POST /dashboard/keys/{id}/pause,
// …/resume and …/end-overlap.
func (d *dashboard) stopKey(do pay.Stop, say said) view {
	return d.ofKey(func(r *http.Request, _ visit, k pay.Key) (answer, error) {
		reason := ""
		if do == pay.StopPause {
			reason = strings.TrimSpace(r.PostForm.Get("reason"))
		}
		host, what := "", say
		if do == pay.StopResume {
			host = r.PostForm.Get("host")
		}
		if host != "" {
			what = saidHostResumed
		}
		_, err := d.Books.StopKey(r.Context(), k.ID, pay.KeyStop{Do: do, Host: host, Reason: reason})
		return answer{redirect: keyPath(k.ID), say: what}, err
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
	_, err := d.Books.StopKey(r.Context(), k.ID, pay.KeyStop{Do: pay.StopRevoke})
	return answer{redirect: keyPath(k.ID), say: saidKeyRevoked}, err
}

type reissuePage struct {
	Name, Path string
	Kept       bool
	Earlier    *moment // see keyState
	Overlaps   []option
}

// overlaps lists the times for which the earlier secret may go on. The first one is the form's default.
func overlaps() []option {
	return []option{
		{"0s", "It stops at once", true}, {"1h", "For an hour", false}, {"24h", "For a day", false}, {"168h", "For a week", false}, {"720h", "For 30 days", false},
	}
}

// askReissueKey serves GET /dashboard/keys/{id}/reissue.
func (d *dashboard) askReissueKey(_ *http.Request, v visit, k pay.Key) (answer, error) {
	if k.Revoked() {
		return answer{redirect: keyPath(k.ID)}, nil
	}
	return answer{page: "key-reissue", title: "Reissue a key", nav: "/dashboard/keys", body: reissuePage{label(k), keyPath(k.ID), k.Kept(), keyStateOf(v, k).Earlier, overlaps()}}, nil
}

// reissueKey serves POST /dashboard/keys/{id}/reissue. The key's page then shows the new secret once.
func (d *dashboard) reissueKey(r *http.Request, v visit, k pay.Key) (answer, error) {
	var overlap time.Duration
	if text := r.PostForm.Get("overlap"); text != "" {
		var err error
		if overlap, err = time.ParseDuration(text); err != nil {
			return answer{}, &pay.InputError{Field: "overlap", Reason: "a time such as 24h"}
		}
	}
	k, secret, err := d.Books.ReissueKey(r.Context(), k.ID, overlap)
	if err != nil {
		return answer{}, err
	}
	say := saidKeyReissued
	if overlap > 0 {
		say = saidKeyOverlaps
	}
	d.once.put(onceFor{v.Session, v.Account.ID, k.ID}, onceSecret{secret: secret, made: true}, v.now)
	return answer{redirect: keyPath(k.ID), say: say}, nil
}
