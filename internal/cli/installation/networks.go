package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/options"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	rpcTime = 5 * time.Second // for one network
	// A clock that is off by more than lateWarn is an alarm, by more than lateFail stops payments.
	lateWarn = 30 * time.Second
	lateFail = 2 * time.Minute
	// staleBlock is the age of a latest block from which on an RPC is stale.
	staleBlock = 5 * time.Minute
)

func separates(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }

// networks asks the RPCs of each network which chain they are for, and the first one for the time.
func (e *examination) networks(ctx context.Context) []Finding {
	names := strings.FieldsFunc(e.value(e.app.Networks, "PURSER_NETWORKS", "base"), separates)
	found := make([][]Finding, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			n, known := x402.NetworkByWire(name)
			if !known || len(n.Assets) == 0 {
				found[i] = one("rpc", Fail, "PURSER_NETWORKS takes names such as base", "%q is no network that purser knows", name)
				return
			}
			found[i] = append(e.network(ctx, n, i == 0), e.second(ctx, n, i == 0)...)
		})
	}
	all.Wait()
	return slices.Concat(found...)
}

// rpcOf returns the URL of a network's RPC and the variable that sets it.
func (e *examination) rpcOf(n x402.Network, first bool) (url, variable string, err error) {
	variable = "PURSER_RPC_URL_" + strings.ToUpper(strings.ReplaceAll(n.Name, "-", "_"))
	given := e.app.Network[n.Name]
	url, err = e.secret(given.RPCURL, given.RPCURLFile, variable)
	if url == "" && err == nil && first {
		variable = "PURSER_RPC_URL"
		url, err = e.secret(e.app.RPCURL, e.app.RPCURLFile, variable)
	}
	return url, variable, err
}

// secondOf returns the URL of a network's second RPC and the variable that sets it.
func (e *examination) secondOf(n x402.Network, first bool) (url, variable string, err error) {
	variable = "PURSER_RPC_URL_" + strings.ToUpper(strings.ReplaceAll(n.Name, "-", "_")) + "_2"
	given := e.app.Network[n.Name]
	url, err = e.secret(given.RPCURL2, given.RPCURL2File, variable)
	if url == "" && err == nil && first {
		variable = "PURSER_RPC_URL_2"
		url, err = e.secret(e.app.RPCURL2, e.app.RPCURL2File, variable)
	}
	return url, variable, err
}

// errReference reports a reference to a secret, which the server resolves and an examination does not.
var errReference = errors.New("is a reference to a secret, and only purser itself resolves it: purser status tells of the RPC")

// secret reads an option that may be in a file.
func (e *examination) secret(given, file options.Text, variable string) (string, error) {
	switch v := e.value(given, variable, ""); {
	case environment.ReferenceIn(v) != "":
		return "", fmt.Errorf("%s %w", variable, errReference)
	case v != "":
		return v, nil
	}
	path := e.value(file, variable+"_FILE", "")
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.Path(path))
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", variable, err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (e *examination) network(ctx context.Context, n x402.Network, first bool) []Finding {
	url, variable, err := e.rpcOf(n, first)
	switch {
	case errors.Is(err, errReference):
		return one("rpc", OK, "", "%s: not asked: %v", n.Name, err)
	case err != nil:
		return one("rpc", Fail, "", "%s: %v", n.Name, err)
	case url == "" && n.Rail != 0:
		return one("rpc", Fail, "set "+variable+" in purser.env, then purser reload, or take "+n.Name+" out of PURSER_NETWORKS",
			"%s: none, and nothing is paid on %s without one", n.Name, n.Title)
	case url == "":
		return one("rpc", Warn, "set "+variable+" in purser.env, then purser reload",
			"%s: none. Balances are unknown, an empty wallet is noticed by the seller only, sellers of MPP are not paid, and what nobody confirms stays unresolved", n.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, rpcTime)
	defer cancel()
	var mu sync.Mutex
	var off time.Duration // how far our clock is ahead of the RPC's
	var dated bool
	client, err := chain.New(chain.Options{URL: url, Timeout: rpcTime, Setting: variable, Dates: func() func(time.Time) {
		asked := e.Now()
		return func(date time.Time) {
			mu.Lock()
			defer mu.Unlock()
			// The answer was made between the question and now.
			switch now := e.Now(); {
			case date.Before(asked.Add(-time.Second)):
				off = asked.Sub(date)
			case date.After(now):
				off = now.Sub(date)
			default:
				off = 0
			}
			dated = true
		}
	}})
	if err != nil {
		return one("rpc", Fail, "", "%s: %v", n.Name, err)
	}
	defer client.Close()
	found, head, known := answers(ctx, client, n, n.Name, variable)
	if !known {
		return found
	}
	mu.Lock()
	defer mu.Unlock()
	return append(found, clock(n.Name, off, dated, e.Now().Sub(head.Time))...)
}

// second asks the second RPC of a network, if there is one. While it fails, no payment there becomes void.
func (e *examination) second(ctx context.Context, n x402.Network, first bool) []Finding {
	name := n.Name + ", second RPC"
	url, variable, err := e.secondOf(n, first)
	switch {
	case errors.Is(err, errReference):
		return one("rpc", OK, "", "%s: not asked: %v", name, err)
	case err != nil:
		return one("rpc", Fail, "", "%s: %v", name, err)
	case url == "":
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rpcTime)
	defer cancel()
	client, err := chain.New(chain.Options{URL: url, Timeout: rpcTime, Setting: variable})
	if err != nil {
		return one("rpc", Fail, "", "%s: %v", name, err)
	}
	defer client.Close()
	found, _, _ := answers(ctx, client, n, name, variable)
	return found
}

// answers asks an RPC which chain it is for, and for its latest block.
func answers(ctx context.Context, client *chain.Client, n x402.Network, name, variable string) (found []Finding, head pay.ChainBlock, known bool) {
	id, err := client.Identify(ctx, n, n.Assets[0])
	var mismatch *chain.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return one("rpc", Fail, "set "+variable+" to one of "+n.Title, "%s: %v", name, err), head, false
	case err != nil && id.ChainID == 0:
		return one("rpc", Fail, "another provider in "+variable, "%s: does not answer: %v", name, err), head, false
	case err != nil:
		return one("rpc", Warn, "another provider in "+variable, "%s: chain %d, but it does not answer all that is asked: %v", name, id.ChainID, err), head, false
	}
	if head, err = client.Head(ctx, n); err != nil {
		return one("rpc", Warn, "another provider in "+variable, "%s: chain %d, but its latest block is not to be had: %v", name, id.ChainID, err), head, false
	}
	return one("rpc", OK, "", "%s: answers for %s, chain %d, at block %d", name, n.Title, id.ChainID, head.Number), head, true
}

// clock compares our clock with the date of an answer, and with the age of the latest block.
func clock(network string, off time.Duration, dated bool, age time.Duration) []Finding {
	const mend = "set this machine's clock by NTP"
	if age < -lateFail {
		return one("clock", Fail, mend, "the latest block of %s is %s ahead of this machine: purser makes no payments", network, (-age).Round(time.Second))
	}
	switch far := off.Abs(); {
	case !dated && age > staleBlock:
		return one("clock", Warn, "", "the latest block of %s is %s old, and the RPC tells no date: the clock or the RPC is wrong", network, age.Round(time.Second))
	case !dated:
		return one("clock", OK, "", "agrees with the latest block of %s; its RPC tells no date", network)
	case far > lateFail:
		return one("clock", Fail, mend, "%s from that of the RPC of %s: purser makes no payments", far.Round(time.Second), network)
	case far > lateWarn:
		return one("clock", Warn, mend, "%s from that of the RPC of %s; from 2 minutes on purser makes no payments", far.Round(time.Second), network)
	case age > staleBlock:
		return one("clock", Warn, "another provider for "+network, "agrees with the RPC of %s, whose latest block is %s old: it is stale", network, age.Round(time.Second))
	}
	return one("clock", OK, "", "agrees with the RPC of %s", network)
}
