package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestTwoKeysInside(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	other, secret := w.NewKey()
	mine, theirs := w.secureAgent(true), w.client(url.UserPassword(secret, "nightly"))
	theirs.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: w.ours.pool()}
	for range 3 {
		w.do(mine, proxytest.Request(t, "GET", w.shop("/x"), nil)).Paid(t)
		w.do(theirs, proxytest.Request(t, "GET", w.shop("/x"), nil)).Paid(t)
	}
	list, err := w.Books.Payments(t.Context(), other, "", 100, "")
	if err != nil || len(list) != 3 || len(w.Payments()) != 3 {
		t.Fatalf("%d and %d payments, %v", len(w.Payments()), len(list), err)
	}
	for _, p := range list {
		if p.Task != "nightly" || p.KeyID != other.ID {
			t.Errorf("%+v", p)
		}
	}
}

// keyed changes what is known of a key while it is in use.
type keyed struct {
	pay.Store
	change atomic.Pointer[func(pay.Key) (pay.Key, error)]
}

func (k *keyed) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	key, err := k.Store.KeyBySecret(ctx, secret)
	if change := k.change.Load(); err == nil && change != nil {
		return (*change)(key)
	}
	return key, err
}

// A change of a key counts on connections that are open.
func TestKeyChangesMeanwhile(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		var (
			store keyed
			later atomic.Int64
		)
		w := newSecure(t, func(s *setup) {
			s.store = func(real pay.Store) pay.Store { store.Store = real; return &store }
			s.forward.Clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		c := w.secureAgent(http2)
		get := func() proxytest.Answer { return w.do(c, proxytest.Request(t, "GET", w.shop("/x"), nil)) }
		get().Paid(t)
		set := func(f func(pay.Key) (pay.Key, error)) {
			store.change.Store(&f)
			later.Add(int64(keyFresh))
		}
		set(func(k pay.Key) (pay.Key, error) {
			k.Policy = &policy.Policy{Doors: []policy.Door{policy.DoorAPI}}
			return k, nil
		})
		get().Declined(t, "doors", true)
		set(func(pay.Key) (pay.Key, error) { return pay.Key{}, errors.New("no database") })
		if a := get(); a.StatusCode != http.StatusServiceUnavailable || a.Problem(t).Reason != proxy.DeclinedUnavailable || strings.Contains(a.Text, "database") {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		set(func(k pay.Key) (pay.Key, error) { return k, nil })
		get().Paid(t)
		if n := w.forward.Tunnels(); n != 1 {
			t.Errorf("%d tunnels", n)
		}
		set(func(pay.Key) (pay.Key, error) { return pay.Key{}, pay.ErrKeyNotFound })
		if a := get(); a.StatusCode != http.StatusForbidden || a.Problem(t).Reason != reasonCredentials {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		proxytest.Eventually(t, "the connection of a revoked key ends", func() bool { return w.forward.Tunnels() == 0 })
		if _, err := proxytest.Do(c, proxytest.Request(t, "GET", w.shop("/x"), nil)); err == nil || !strings.Contains(err.Error(), "Proxy Authentication Required") {
			t.Errorf("%v", err)
		}
		w.seller.Expect(3, 2, 2)
	})
}

// On an open connection, the earlier secret of a key works until the end of the overlap, and not a moment longer.
func TestOverlapEndsMeanwhile(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, http2 bool) {
		var (
			store keyed
			later atomic.Int64
		)
		clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		w := newSecure(t, func(s *setup) {
			s.store = func(real pay.Store) pay.Store { store.Store = real; return &store }
			s.forward.Clock = clock
		})
		c := w.secureAgent(http2)
		get := func() proxytest.Answer { return w.do(c, proxytest.Request(t, "GET", w.shop("/x"), nil)) }
		get().Paid(t)
		f := func(k pay.Key) (pay.Key, error) { k.Ends = clock().Add(keyFresh / 4); return k, nil }
		store.change.Store(&f)
		later.Add(int64(keyFresh))
		get().Paid(t)
		f = func(pay.Key) (pay.Key, error) { return pay.Key{}, pay.ErrSecretReplaced }
		store.change.Store(&f)
		later.Add(int64(keyFresh / 2)) // it would be fresh
		if a := get(); a.StatusCode != http.StatusForbidden || a.Problem(t).Reason != reasonCredentials {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
	})
}

func TestManyStreams(t *testing.T) {
	t.Parallel()
	w := newSecure(t)
	c := w.secureAgent(true)
	w.do(c, proxytest.Request(t, "GET", w.shop("/free"), nil)) // the connection they will share
	const n = 40
	type result struct {
		id  string
		err error
	}
	results := make(chan result, n)
	for i := range n {
		go func() {
			a, err := proxytest.Do(c, proxytest.Request(t, "POST", w.shop(fmt.Sprintf("/%d", i)), strings.NewReader(fmt.Sprint(i))))
			if err == nil && a.Text != fmt.Sprintf("paid:POST:%d", i) {
				err = fmt.Errorf("%d %s", a.StatusCode, a.Text)
			}
			if err != nil {
				results <- result{err: err}
				return
			}
			results <- result{id: a.Header.Get(proxy.HeaderPayment)}
		}()
	}
	ids := make(map[string]bool)
	for range n {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		ids[r.id] = true
	}
	if len(ids) != n || w.forward.Tunnels() != 1 {
		t.Errorf("%d payments over %d connections", len(ids), w.forward.Tunnels())
	}
	w.seller.Expect(n, n, n)
}
