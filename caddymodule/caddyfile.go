package caddymodule

import (
	"cmp"
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/pay"
)

// UnmarshalCaddyfile reads the global option:
//
//	purser {
//	    <option> <value>
//	    store|wallets|facilitator <module> { … }
//	    network <name> { … }
//	    plan free|developer|agency { … }
//	    host <pattern> { … }
//	    task <label>|* { … }
//	}
//
// Options have the names that the fields of App have in JSON; lists take several arguments, and commas.
// network, plan, host and task can be repeated; their blocks have the options of NetworkOptions,
// PlanOptions and BudgetOptions. A
// secret is a reference such as {env.PURSER_KEY}.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := parseModule(d, a, map[string]func() error{
		"store":       func() error { return storeOption.parse(d, &a.StoreRaw) },
		"wallets":     func() error { return walletsOption.parse(d, &a.WalletsRaw) },
		"facilitator": func() error { return facilitatorOption.parse(d, &a.FacilitatorRaw) },
		"network":     func() error { return parsePart(d, "has no RPC", &a.NetworkTable) },
		"plan":        func() error { return parsePart(d, "changes nothing", &a.PlanTable) },
		"host":        func() error { return parsePart(d, "has no limit", &a.Hosts) },
		"task":        func() error { return parsePart(d, "has no limit", &a.Tasks) },
	})
	return orWrapped(d, err, cmp.Or(
		masterKeyOption.IsReference(a.MasterKey), internalSecretOption.IsReference(a.InternalSecret),
		keyOption.IsReference(a.Key), oidcSecretOption.IsReference(a.OIDCClientSecret), a.areReferences(),
	))
}

// orWrapped returns an error of the parser's, else one about the options with its place in the file.
func orWrapped(d *caddyfile.Dispenser, parsed, options error) error {
	if parsed != nil || options == nil {
		return parsed
	}
	return d.WrapErr(options)
}

// parseModule reads the name of a module and its block, if there is one: options of into, which is a
// pointer to a struct, and others.
func parseModule(d *caddyfile.Dispenser, into any, others map[string]func() error) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return parseBlock(d, into, others)
}

// parseBlock reads a block of options with one argument each.
func parseBlock(d *caddyfile.Dispenser, into any, others map[string]func() error) error {
	known, first := options.Fields(into), map[string]caddyfile.Token{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name, at := d.Val(), d.Token()
		field, isField := known[name]
		parse := others[name]
		if parse == nil && isField {
			parse = func() error { return parseOption(d, field) }
		}
		if parse == nil {
			return d.Errf("unrecognized subdirective %q", name)
		}
		if err := parse(); errors.Is(err, options.ErrTwice) {
			return twice(d, name, first[name])
		} else if err != nil {
			return err
		}
		first[name] = at
	}
	return nil
}

// twice is the error for an option that stands at another place already.
func twice(d *caddyfile.Dispenser, name string, first any) error {
	at, known := first.(caddyfile.Token)
	if !known || at.File == "" {
		return d.Errf("%s is given twice", name)
	}
	return d.Errf("%s is given twice, first at %s:%d", name, at.File, at.Line)
}

// parseOption reads the arguments of an option: one, or several of a list.
func parseOption(d *caddyfile.Dispenser, into options.Field) error {
	name := d.Val()
	switch err := into.Take(d.RemainingArgs()...); {
	case errors.Is(err, options.ErrCount):
		return d.ArgErr()
	case errors.Is(err, options.ErrEmpty):
		return d.Errf("%s: %w", name, err)
	default:
		return err
	}
}

// parsePart reads a block of options of one host, task or plan.
func parsePart[T comparable](d *caddyfile.Dispenser, empty string, into *map[string]T) error {
	var name string
	of := d.Val()
	if !d.AllArgs(&name) || name == "" {
		return d.ArgErr()
	}
	if of == "plan" {
		known, err := pay.ParsePlan(name)
		if err != nil {
			return d.WrapErr(err)
		}
		name = strings.ToLower(string(known))
	}
	if _, given := (*into)[name]; given {
		return twice(d, of+" "+name, d.GetContext(of+" "+name))
	}
	d.SetContext(of+" "+name, d.Token())
	var part, unset T
	if err := parseBlock(d, &part, nil); err != nil {
		return err
	}
	if part == unset {
		return d.Errf("%s %s %s", of, name, empty)
	}
	if *into == nil {
		*into = map[string]T{}
	}
	(*into)[name] = part
	return nil
}

func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		return nil, d.Err("the purser option is given twice")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "purser", Value: caddyconfig.JSON(app, nil)}, nil
}

// handler is a pointer to a handler H that reads its own directive.
type handler[H any] interface {
	*H
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}

func parseHandler[H any, P handler[H]](h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	p := P(new(H))
	return p, p.UnmarshalCaddyfile(h.Dispenser)
}

var _ caddyfile.Unmarshaler = (*App)(nil)
