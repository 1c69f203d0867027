package caddymodule

// No Caddy here: it opens the store of a configuration that has started without it.

import (
	"context"
	"errors"
	"sync"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/reopen"
	"github.com/purserpay/purser/internal/setting"
)

// onFailureOption says what a start does without a store. A Caddy of one's own has other sites, which do not need it.
var onFailureOption = setting.New("on_failure", "PURSER_ON_FAILURE", "fail")

// degrades reads onFailureOption: it is degrade and not fail.
func degrades(given string) (bool, error) {
	o := onFailureOption
	if guest != nil {
		o.Unset = "degrade"
	}
	v, err := o.Value(given)
	if err == nil && v != "degrade" && v != "fail" {
		err = o.Errorf("%q is neither degrade nor fail", v)
	}
	return v == "degrade", err
}

// storeError: the store cannot be opened. Later it may, with the same configuration.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// errNoStore: the configuration serves, and has no store yet.
var errNoStore = errors.New("the database cannot be opened")

// outage is the time of an app without its store. Its doors answer that nothing is served.
type outage struct {
	*reopen.Outage
	overTCP bool
}

// outages has those of the configurations that have started and not stopped: more than one while one replaces another.
var outages sync.Map // of *outage

// degrade makes the app wait for its store, which could not be opened because of cause.
func (a *App) degrade(cause error) {
	a.log.Error("started without a store: nothing is served or paid until it can be opened (on_failure)", "error", cause)
	a.mu.Lock() // no attempt succeeds before the outage is known
	defer a.mu.Unlock()
	a.outage.Store(&outage{reopen.Begin(a.ctx, cause, func(ctx context.Context) error {
		run, err := a.open(ctx)
		if err == nil {
			a.serve(run)
		}
		return err
	}, func(err error) {
		a.log.Error("still without a store that can be used", "error", err)
	}), a.settings.adminOverTCP})
	outages.Store(a.outage.Load(), nil)
}

// adminOutage is the outage as the operator sees it; nil: there is none.
func adminOutage() *adminapi.Outage {
	var o *outage
	outages.Range(func(other, _ any) bool {
		if other := other.(*outage); o == nil || other.Since.After(o.Since) {
			o = other
		}
		return true
	})
	if o == nil {
		return nil
	}
	return &adminapi.Outage{Since: o.Since, Error: o.Cause().Error(), OverTCP: o.overTCP}
}

// unavailable tells clients why a request is not served. The log and the operator are told more.
func unavailable(err error) string {
	if errors.Is(err, errNoStore) {
		return "purser cannot open its database, so it serves nothing and pays nothing until it can; its operator finds the cause with 'purser status'"
	}
	return ""
}
