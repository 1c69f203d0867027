package caddymodule

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/routes"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// siteOption names one of several sites: see [App.Site].
var siteOption = setting.New("site", "PURSER_SITE", "")

// checkListeners refuses a purser that would run and listen nowhere, proxies that requests for other
// hosts do not reach, and what strangers could use: a stand-in key, and open registration beside a proxy.
func (a *App) checkListeners() error {
	var proxies []string
	for _, d := range a.doors {
		p, is := d.(*Proxy)
		if !is || p.server == nil {
			continue
		}
		proxies = append(proxies, p.listen()...)
		if a.settings.standin && !p.loopback() {
			return standinOption.Errorf("loopback lets everybody who reaches the proxy spend, but it listens on %v "+
				"(PURSER_BIND): bind it to loopback, or turn the stand-in off", p.listen())
		}
		if there, open := routes.Have(p.server.Routes, p.CaddyModule().ID); there && !open {
			return fmt.Errorf("purser: %w", exposure.NarrowProxy(p.listen()))
		}
	}
	if f := exposure.OpenProxy(a.registersOn(), proxies); f != nil {
		return fmt.Errorf("purser: %w", f)
	}
	if site := a.settings.site; !slices.ContainsFunc(a.doors, func(d door) bool { return d.isAt(site) }) && len(a.doors) > 0 {
		return siteOption.Errorf("none of purser's doors is at %q, but they are on %v", site, a.listens())
	}
	if len(a.listens()) == 0 {
		return errors.New("purser: no server listens for purser_api, purser_proxy, purser_dashboard or a transport: is there a site with one " +
			"of them, and has it an address (PURSER_BIND, PURSER_PORT)?")
	}
	return nil
}

// warnOfExposure warns, in a Caddy of one's own, of what the program purser has told of by the configuration. An admin endpoint
// elsewhere than usual is not seen.
func (a *App) warnOfExposure() {
	if guest == nil {
		return
	}
	var found []exposure.Finding
	if at, err := addrPorts([]string{caddy.DefaultAdminListen}); err == nil && !a.settings.adminOverTCP && slices.ContainsFunc(at, listenedOn) {
		found = append(found, exposure.OpenAdmin(caddy.DefaultAdminListen))
	}
	for _, d := range a.doors {
		if f := exposure.Unbounded(d.listen()); !d.wrapped() && !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	for _, f := range found {
		a.log.Warn(f.Error())
	}
}

// checkBudget refuses a door that lets all its clients spend with one key, on a listener that is for
// more than this machine, while the operator has set no budget. The shipped
// default of the daily budget says nothing, and neither does "off".
func (a *App) checkBudget(listen []string, k pay.Key) error {
	if exposure.OnlyLoopback(listen) {
		return nil
	}
	var own policy.Policy
	if k.Policy != nil {
		own = *k.Policy
	}
	daily, monthly := own.DailyBudget, own.MonthlyBudget
	if daily == nil && a.settings.dailyGiven {
		daily = a.settings.policy.DailyBudget
	}
	if monthly == nil {
		monthly = a.settings.policy.MonthlyBudget
	}
	if daily.Max() != nil || monthly.Max() != nil {
		return nil
	}
	return fmt.Errorf("purser: everybody who reaches %v would spend with key %s, with no budget that was set for it: "+
		"set %s or %s to an amount in USDC, or bind the site to loopback", listen, k.ID, dailyBudgetOption, monthlyBudgetOption)
}

// listens are the addresses of the sites that serve purser's doors.
func (a *App) listens() []string {
	var all []string
	for _, d := range a.doors {
		all = append(all, d.listen()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// siteOf is the server that a handler is being provisioned for.
func siteOf(ctx caddy.Context) *caddyhttp.Server {
	s, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return s
}

// ownListeners recognizes the addresses that the proxy must not dial for any client: all sites, and
// Caddy's admin endpoint. Modules are not told its address. So its usual places count as ours, and
// all that Caddy listens on at that moment. sites: those without a door of purser's may be dialed.
func (a *App) ownListeners(sites bool) (func(netip.AddrPort) bool, error) {
	listen := []string{caddy.DefaultAdminListen, os.Getenv("PURSER_ADMIN"), os.Getenv("CADDY_ADMIN")}
	doors := a.listens()
	var others []string
	if app, err := a.ctx.AppIfConfigured("http"); err == nil {
		for _, s := range app.(*caddyhttp.App).Servers {
			if sites && !slices.ContainsFunc(s.Listen, func(l string) bool { return slices.Contains(doors, l) }) {
				others = append(others, s.Listen...)
			} else {
				listen = append(listen, s.Listen...)
			}
		}
	}
	bound, err := addrPorts(listen)
	if err != nil {
		return nil, err
	}
	free, err := addrPorts(others)
	if err != nil {
		return nil, err
	}
	known, allowed := guard.OwnListeners(bound...), guard.OwnListeners(free...)
	return func(addr netip.AddrPort) bool { return known(addr) || !allowed(addr) && listenedOn(addr) }, nil
}

// listenedOn reports whether a connection to addr would come to a listener of Caddy's, for
// whatever it is. Caddy knows its listeners by how their addresses are spelled: one bound by
// a name that is neither localhost nor the machine's is not found.
func listenedOn(addr netip.AddrPort) bool {
	used := func(host string) bool {
		where := net.JoinHostPort(host, strconv.Itoa(int(addr.Port())))
		return slices.ContainsFunc([]string{"tcp", "tcp4", "tcp6"}, func(network string) bool {
			return caddy.ListenerUsage(network, where) > 0
		})
	}
	ip := addr.Addr().Unmap()
	hosts := []string{ip.String()}
	if ip.IsLoopback() || ip.IsUnspecified() { // systems connect the latter to loopback
		hosts = append(hosts, "localhost", "127.0.0.1", "::1")
	}
	if slices.ContainsFunc(hosts, used) {
		return true
	}
	everywhere := []string{"", "0.0.0.0", "::"}
	if name, err := os.Hostname(); err == nil {
		everywhere = append(everywhere, name)
	}
	here := guard.OwnListeners(netip.AddrPortFrom(netip.IPv4Unspecified(), addr.Port()))
	return slices.ContainsFunc(everywhere, used) && here(addr)
}

// addrPorts are the TCP addresses that listeners stand for.
func addrPorts(listen []string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, l := range listen {
		if l == "" || l == "off" {
			continue
		}
		addr, err := caddy.ParseNetworkAddress(l)
		if err != nil {
			return nil, fmt.Errorf("listener address %q: %w", l, err)
		}
		if addr.IsUnixNetwork() || addr.IsFdNetwork() {
			continue
		}
		for port := addr.StartPort; port <= addr.EndPort; port++ {
			for _, ip := range boundAddresses(addr.Host) {
				all = append(all, netip.AddrPortFrom(ip, uint16(port)))
			}
		}
	}
	return all, nil
}

// boundAddresses returns the addresses that a listener's host stands for. A name other than localhost may
// be any address of this machine.
func boundAddresses(host string) []netip.Addr {
	if host == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}
	}
	return []netip.Addr{netip.IPv4Unspecified()}
}
