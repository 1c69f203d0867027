package caddymodule

// No Caddy here: it resolves the RPCs of networks.

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/x402"
)

// NetworkOptions has the RPCs of a network. The first network's may stand in rpc_url and rpc_url_2.
type NetworkOptions struct {
	// RPCURL is its JSON-RPC. Default: PURSER_RPC_URL_<NETWORK>, such as PURSER_RPC_URL_BASE_SEPOLIA.
	RPCURL string `json:"rpc_url,omitempty"`
	// RPCURLFile is a file that holds it. Default: PURSER_RPC_URL_<NETWORK>_FILE.
	RPCURLFile string `json:"rpc_url_file,omitempty"`
	// RPCURL2 is another provider's, which must agree before a payment on this network is void or
	// disputed. Default: PURSER_RPC_URL_<NETWORK>_2.
	RPCURL2 string `json:"rpc_url_2,omitempty"`
	// RPCURL2File is a file that holds it. Default: PURSER_RPC_URL_<NETWORK>_2_FILE.
	RPCURL2File string `json:"rpc_url_2_file,omitempty"`
}

var (
	rpcURLOption  = setting.New("rpc_url", "PURSER_RPC_URL", "")
	rpcURL2Option = setting.New("rpc_url_2", "PURSER_RPC_URL_2", "")
)

// networkRPCs holds the RPCs of a network.
type networkRPCs struct{ first, second rpcSetting }

// rpcSetting is an RPC's URL, "" for none, and the variable that sets it.
type rpcSetting struct{ url, variable string }

// rpcVariable names a network's own RPC variable.
func rpcVariable(network string) string {
	return rpcURLOption.Variable + "_" + strings.ToUpper(strings.ReplaceAll(network, "-", "_"))
}

// resolveRPCs reads the RPCs of all networks that are paid on.
func (a *App) resolveRPCs(s *settings) error {
	s.rpcs = map[string]networkRPCs{}
	for i, n := range s.networks {
		given := a.NetworkTable[n.Name]
		of, variable := "network "+n.Name+" ", rpcVariable(n.Name)
		first, second := setting.New(of+rpcURLOption.Name, variable, ""), setting.New(of+rpcURL2Option.Name, variable+"_2", "")
		var r networkRPCs
		var err error
		if r.first, err = rpcOf(first, given.RPCURL, given.RPCURLFile); err != nil {
			return err
		}
		if r.second, err = rpcOf(second, given.RPCURL2, given.RPCURL2File); err != nil {
			return err
		}
		if i == 0 {
			err = cmp.Or(r.first.orElse(rpcURLOption, a.RPCURL, a.RPCURLFile), r.second.orElse(rpcURL2Option, a.RPCURL2, a.RPCURL2File))
		}
		if err = cmp.Or(err, r.check()); err != nil {
			return err
		}
		s.rpcs[n.Name] = r
	}
	for name := range a.NetworkTable {
		if _, paid := s.rpcs[name]; !paid {
			return setting.Named("network " + name).Errorf("it is not in networks (PURSER_NETWORKS)")
		}
	}
	return nil
}

// orElse takes the RPC that an option for the first network sets. It is an error if both do.
func (r *rpcSetting) orElse(o setting.Option, given, givenFile string) error {
	general, err := rpcOf(o, given, givenFile)
	switch {
	case err != nil:
		return err
	case r.url == "":
		*r = general
	case general.url != "":
		return o.Errorf("%s is set as well: keep one", r.variable)
	}
	return nil
}

func (r networkRPCs) check() error {
	second := setting.New(rpcURL2Option.Name, r.second.variable, "")
	switch {
	case r.second.url == "":
	case r.first.url == "":
		return second.Errorf("needs %s, which it has to agree with", r.first.variable)
	case r.second.url == r.first.url:
		return second.Errorf("is the same as %s, which agrees with itself always", r.first.variable)
	}
	return nil
}

// rpcOf reads an option that is the URL of an RPC, or unset.
func rpcOf(o setting.Option, given, givenFile string) (rpcSetting, error) {
	r := rpcSetting{variable: o.Variable}
	v, err := o.Contents(o.ValueOrFile(given, givenFile))
	if err != nil || v == "" {
		return r, err
	}
	if _, err := chain.New(chain.Options{URL: v, Setting: o.Variable}); err != nil {
		return r, o.Errorf("%w", err)
	}
	r.url = v
	return r, nil
}

// warnOfRPCs tells what a network without an RPC lacks, and of RPCs that serve no network.
func (a *App) warnOfRPCs() {
	for _, n := range a.settings.networks {
		switch r := a.settings.rpcs[n.Name].first; {
		case r.url == "" && n.Rail != 0:
			a.log.Warn("no RPC ("+r.variable+"): nothing is paid on this network", "network", n.Name)
		case r.url == "":
			a.log.Warn("no RPC ("+r.variable+"): balances are not checked before paying, sellers of MPP are not paid, and a payment whose outcome nobody tells stays unresolved",
				"network", n.Name)
		}
	}
	for _, n := range x402.Networks() {
		if _, paid := a.settings.rpcs[n.Name]; !paid && os.Getenv(rpcVariable(n.Name)) != "" {
			a.log.Warn(rpcVariable(n.Name) + " is set, and PURSER_NETWORKS does not name " + n.Name + ": nothing is paid there")
		}
	}
}

// names are the settings of RPCs, for messages.
func (s *settings) names() pay.Names {
	return pay.Names{
		RPC:        func(network string) string { return cmp.Or(s.rpcs[network].first.variable, rpcVariable(network)) },
		SecondRPC:  func(network string) string { return cmp.Or(s.rpcs[network].second.variable, rpcVariable(network)+"_2") },
		AcceptRisk: "purser reconcile --accept-risk",
		Approve:    "purser wallets approve",
	}
}

// chains makes the clients of the RPCs: the first or the second ones.
func (s *settings) chains(time *pay.Timekeeper, log *slog.Logger, source pay.TimeSource, of func(networkRPCs) rpcSetting) (chain.Networks, error) {
	all := chain.Networks{}
	for i, n := range s.networks {
		r := of(s.rpcs[n.Name])
		if r.url == "" {
			continue
		}
		name := source
		if i > 0 {
			name = source.On(n.Name)
		}
		c, err := tempo.Open(n, chain.Options{URL: r.url, Setting: r.variable, Logger: log.With("part", string(name)), Dates: time.Dates(name)})
		if err != nil {
			return nil, fmt.Errorf("purser: %s: %w", r.variable, err)
		}
		all[n.Name] = c
	}
	return all, nil
}

// openRPCs gives the payer its RPCs, and the rails that need them.
func (t *tenant) openRPCs(o *pay.Options) error {
	s := &t.app.settings
	first, err := s.chains(o.Time, t.log, pay.SourceRPC, func(r networkRPCs) rpcSetting { return r.first })
	if err != nil {
		return err
	}
	if len(first) > 0 {
		o.Chain, t.chain, o.Rails = metrics.Chain{Networks: first}, metrics.Chain{Networks: first}, tempo.Rails(first, o.Clock)
		t.closeLater(first)
	}
	second, err := s.chains(o.Time, t.log, pay.SourceSecondRPC, func(r networkRPCs) rpcSetting { return r.second })
	if len(second) > 0 {
		o.Second = metrics.Chain{Networks: second}
		t.closeLater(second)
	}
	return err
}

// secondRPCs reports whether a network has two RPCs that must agree.
func (s *settings) secondRPCs() bool {
	return slices.ContainsFunc(s.networks, func(n x402.Network) bool { return s.rpcs[n.Name].second.url != "" })
}
