package caddymodule

// No Caddy here: it resolves the options of the proxy that say whose HTTPS is opened.

import (
	"crypto/x509"
	"os"
	"slices"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/proxy/forward"
)

var (
	interceptOption = option{name: "purser_proxy intercept", variable: "PURSER_INTERCEPT"}
	tunnelOption    = option{name: "purser_proxy tunnel"}
	trustOption     = option{name: "purser_proxy trust"}
)

// everyHost is the default of what is intercepted.
const everyHost = "*"

// resolveInterception reads whose HTTPS is opened. Nothing of the authority is touched.
func (h *Proxy) resolveInterception() error {
	hosts, err := interceptOption.all(h.Intercept)
	if err != nil {
		return err
	}
	if slices.Contains(hosts, off) {
		if len(hosts) > 1 {
			return interceptOption.errorf("either %s or hosts, not both", off)
		}
		return nil
	}
	if len(hosts) == 0 {
		hosts = []string{everyHost}
	}
	on := new(forward.Interception)
	if on.Hosts, err = guard.ParseHosts(hosts...); err != nil {
		return interceptOption.errorf("%w", err)
	}
	except, err := tunnelOption.all(h.Tunnel)
	if err != nil {
		return err
	}
	if on.Except, err = guard.ParseHosts(except...); err != nil {
		return tunnelOption.errorf("%w", err)
	}
	h.interception = on
	return nil
}

// resolveTrust reads the roots that upstreams are verified against.
func (h *Proxy) resolveTrust() error {
	files, err := trustOption.all(h.Trust)
	if err != nil || len(files) == 0 {
		return err
	}
	if h.roots, err = x509.SystemCertPool(); err != nil {
		return trustOption.errorf("the system's roots: %w", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return trustOption.errorf("%w", err)
		}
		if !h.roots.AppendCertsFromPEM(text) {
			return trustOption.errorf("%s holds no certificate in PEM", path)
		}
	}
	return nil
}

// intercept opens the authority and gives the proxy its certificates.
func (h *Proxy) intercept(t *tenant, o *forward.Options) (err error) {
	o.Roots = h.roots
	if h.interception == nil {
		return nil
	}
	if t.authority == nil {
		if t.authority, err = newAuthority(h.app.ctx); err != nil {
			return err
		}
	}
	h.authority = t.authority
	if err := h.authority.export(h.app.settings.dataDir); err != nil {
		return err
	}
	on := *h.interception
	on.Leaf = forward.NewMinter(h.authority.issuer).Leaf
	o.Interception = &on
	return nil
}

// all are the entries of an option that can be repeated, each of which may name several.
func (o option) all(given []string) ([]string, error) {
	if len(given) == 0 {
		return o.entries("")
	}
	var all []string
	for _, g := range given {
		entries, err := o.entries(g)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// sizeOrOff is an option such as "64MiB", or off, which is noSpool; 0 if it is not set.
func (o option) sizeOrOff(given string) (int64, error) {
	if v, err := o.value(given); err != nil || v == off {
		return noSpool, err
	}
	return o.size(given)
}
