package storetest

import (
	"errors"
	"time"

	"github.com/purserpay/purser/pay"
)

// onWay proposes a GET of a site to which the redirects of paid answers have led.
func onWay(k pay.Key, arrived time.Time) *pay.Begin {
	b := want(k, arrived)
	b.Redirects = &pay.Redirects{
		Target: pay.RedirectTarget(k.ID, "shop.test/y"), Site: pay.RedirectSite(k.ID, "GET", "shop.test"),
		Anywhere: pay.RedirectAnywhere(k.ID, "GET"), Arrived: arrived, Follows: true,
		Own: func(string) (m pay.NoticeMark, made time.Time) { return m, made },
	}
	return b
}

// redirected demands that a call is refused because it stands on a way of redirects.
func (f *fixture) redirected(b *pay.Begin) {
	f.Helper()
	_, err := f.Begin(f.ctx, b)
	if rule, is := errors.AsType[*pay.PolicyError](err); !is || rule.Rule != pay.RuleRedirected || rule.Detail == "" {
		f.Errorf("%v", err)
	}
	if _, err := f.Payment(f.ctx, b.New.ID); !errors.Is(err, pay.ErrPaymentNotFound) {
		f.Errorf("a payment: %v", err)
	}
}

// leads keeps marks of a key's redirects.
func (f *fixture) leads(k pay.Key, m pay.NoticeMark, names ...string) {
	f.Helper()
	marks := map[string]pay.NoticeMark{}
	for _, name := range names {
		marks[name] = m
	}
	f.must(f.SetMarks(f.ctx, k.ID, marks, noon))
}

var redirectTests = map[string]func(*fixture){
	"a target is refused, whatever the client says": func(f *fixture) {
		k := f.key()
		f.leads(k, pay.RedirectMark(noon, 1), onWay(k, noon).Redirects.Target)
		f.reopen(Opener.Kill)
		for _, change := range []func(*pay.Begin){
			func(*pay.Begin) {},
			func(b *pay.Begin) { b.Redirects.Known = true },
			func(b *pay.Begin) { b.Redirects.Follows = false },
			func(b *pay.Begin) { b.IdempotencyKey = "another" },
			// The refusal of a pause has the challenge, which a client that pays by itself would answer.
			func(b *pay.Begin) { b.Paused = &pay.Pause{At: noon, Reason: "a person looks"} },
		} {
			b := onWay(k, noon.Add(pay.RedirectTime-time.Second))
			change(b)
			f.redirected(b)
		}
		f.begin(onWay(f.key(), noon), pay.Created) // of another key
		f.begin(onWay(k, noon.Add(pay.RedirectTime)), pay.Created)
	},
	"a site is refused unless the client's own word is for it": func(f *fixture) {
		k := f.key()
		site := onWay(k, noon).Redirects.Site
		f.leads(k, pay.RedirectMark(noon, 1), site)
		f.redirected(onWay(k, noon.Add(time.Second)))
		known := onWay(k, noon.Add(time.Second))
		known.Redirects.Known = true
		f.begin(known, pay.Created)
		f.same("payments before", known.Redirects.AtSite, uint64(1))
		posted := onWay(k, noon.Add(time.Second))
		posted.Redirects.Follows = false
		f.begin(posted, pay.Created)
		f.same("payments before", posted.Redirects.AtSite, uint64(0))
		f.leads(k, pay.RedirectMark(noon, 2), site)
		f.reopen(Opener.Kill)
		third := onWay(k, noon.Add(time.Second))
		third.Redirects.Known = true
		f.redirected(third)
	},
	"the third payment on a way between sites": func(f *fixture) {
		k := f.key()
		anywhere := onWay(k, noon).Redirects.Anywhere
		f.leads(k, pay.RedirectMark(noon, 1), anywhere)
		second := onWay(k, noon.Add(time.Second))
		f.begin(second, pay.Created)
		f.same("payments before", []uint64{second.Redirects.AtSite, second.Redirects.Everywhere}, []uint64{0, 1})
		f.leads(k, pay.RedirectMark(noon, 2), anywhere)
		f.redirected(onWay(k, noon.Add(time.Second)))
		known := onWay(k, noon.Add(time.Second))
		known.Redirects.Known = true
		f.begin(known, pay.Created)
	},
	"a request is judged by its arrival": func(f *fixture) {
		k := f.key()
		m := pay.RedirectMark(noon, 1)
		site := onWay(k, noon).Redirects.Site
		f.leads(k, m, site)
		late := onWay(k, noon.Add(pay.RedirectTime-time.Second)) // and its 402 comes minutes later
		late.Now = noon.Add(5 * time.Minute)
		f.must(f.SetMarks(f.ctx, k.ID, map[string]pay.NoticeMark{"redirect/other": m}, late.Now)) // drops stale ones
		f.redirected(late)
		before := onWay(k, noon.Add(-time.Second))
		before.Redirects.Own = func(string) (pay.NoticeMark, time.Time) { return m, noon }
		f.begin(before, pay.Created)
		after := onWay(k, noon.Add(time.Second))
		after.Redirects.Own = before.Redirects.Own
		f.redirected(after)
	},
	"a mark that the store could not keep": func(f *fixture) {
		k := f.key()
		b := onWay(k, noon.Add(time.Second))
		b.Redirects.Own = func(string) (pay.NoticeMark, time.Time) { return pay.RedirectMark(noon, 1), noon }
		f.redirected(b)
	},
	"repeats of a payment are served": func(f *fixture) {
		k := f.key()
		p := f.begin(onWay(k, noon), pay.Created)
		f.release(p, false)
		f.leads(k, pay.RedirectMark(noon, 2), onWay(k, noon).Redirects.Marks()...)
		again := onWay(k, noon.Add(time.Second))
		again.Identity = p.Identity
		f.begin(again, pay.Driven)
	},
	"forgotten": func(f *fixture) {
		k := f.key()
		names := onWay(k, noon).Redirects.Marks()
		m := pay.RedirectMark(noon, 3)
		f.leads(k, m, names...)
		f.same("mark", must(f.Mark(f.ctx, names[0])), m)
		f.leads(k, pay.NoticeMark{}, names...)
		f.reopen(Opener.Kill)
		f.same("mark", must(f.Mark(f.ctx, names[0])), pay.NoticeMark{})
		f.begin(onWay(k, noon.Add(time.Second)), pay.Created)
	},
}
