package caddymodule

// No Caddy here: it resolves the options of the proxy that say whose HTTPS is opened.

import (
	"crypto/x509"
	"os"
	"slices"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/proxy/forward"
)

// resolveInterception reads whose HTTPS is opened. Nothing of the authority is touched.
func (h *Proxy) resolveInterception() error {
	intercept, tunnel := setting.New("purser_proxy intercept", "PURSER_INTERCEPT", "*"), setting.Named("purser_proxy tunnel")
	hosts, err := intercept.All(h.Intercept)
	if err != nil {
		return err
	}
	if slices.Contains(hosts, setting.Off) {
		if len(hosts) > 1 {
			return intercept.Errorf("either %s or hosts, not both", setting.Off)
		}
		return nil
	}
	on := new(forward.Interception)
	if on.Hosts, err = guard.ParseHosts(hosts...); err != nil {
		return intercept.Errorf("%w", err)
	}
	except, err := tunnel.All(h.Tunnel)
	if err != nil {
		return err
	}
	if on.Except, err = guard.ParseHosts(except...); err != nil {
		return tunnel.Errorf("%w", err)
	}
	h.interception = on
	return nil
}

// resolveTrust reads the roots that upstreams are verified against.
func (h *Proxy) resolveTrust() error {
	trust := setting.Named("purser_proxy trust")
	files, err := trust.All(h.Trust)
	if err != nil || len(files) == 0 {
		return err
	}
	if h.roots, err = x509.SystemCertPool(); err != nil {
		return trust.Errorf("the system's roots: %w", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return trust.Errorf("%w", err)
		}
		if !h.roots.AppendCertsFromPEM(text) {
			return trust.Errorf("%s holds no certificate in PEM", path)
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
