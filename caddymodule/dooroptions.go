package caddymodule

import (
	"math"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// DoorOptions say who pays for the requests of a reverse proxy, and how.
type DoorOptions struct {
	// Key is a reference to the API key that pays. One that is not known yet is created with
	// a wallet. Default: the app's key, else the key of `purser exec`.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of that key. Default: none.
	KeyFile string `json:"key_file,omitempty"`
	// Task is the label of the budget that payments fall under: 1 to 64 characters of
	// A-Z a-z 0-9 . _ -. Default: none.
	Task string `json:"task,omitempty"`
	// AllowHTTP lists upstreams, "name" or "name:port", that are paid over plain http, where a
	// machine on the path can forge what is asked for. Default: none but those with a
	// loopback or private address.
	AllowHTTP []string `json:"allow_http,omitempty"`
	// ChallengeHeaders are further response headers that carry challenges.
	ChallengeHeaders []string `json:"challenge_headers,omitempty"`
	// MaxReplay is the part of a request body that is kept in memory at most, to be sent again with a
	// payment, such as "1MiB"; the rest goes into a temporary file. Default: 1 MiB.
	MaxReplay string `json:"max_replay,omitempty"`
	// MaxSpool is the longest request body that is kept with the help of a file, or off;
	// larger requests are not paid. Default: 64 MiB.
	MaxSpool string `json:"max_spool,omitempty"`
	// MaxFailures is the largest number of payments in a row to one upstream that bring no answer, an error or
	// another 402, before new ones are declined for a while, or off. Default: 5.
	MaxFailures string `json:"max_failures,omitempty"`
}

// payingDoor holds the resolved DoorOptions.
type payingDoor struct {
	secret    string // of a key of its own; empty: the app's
	task      string
	maxReplay int64
	maxSpool  int64
	failures  int
}

// noSpool is MaxSpool of package proxy for bodies in memory only.
const noSpool = -1

var doorKeyOption = option{name: "transport purser key"}

// resolve checks the options.
func (o DoorOptions) resolve() (d payingDoor, err error) {
	if d.secret, err = doorKeyOption.secret(o.Key, o.KeyFile); err != nil {
		return d, err
	}
	switch {
	case d.secret == "" && o.Key != "":
		// Not the app's key instead: its money is not this door's.
		return d, doorKeyOption.errorf("%s is empty", o.Key)
	case d.secret != "" && !pay.ValidSecret(d.secret):
		return d, doorKeyOption.errorf("not an API key: 8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -")
	}
	if d.task, err = (option{name: "transport purser task"}).value(o.Task); err != nil {
		return d, err
	}
	if d.task != "" && !pay.ValidTask(d.task) {
		return d, option{name: "transport purser task"}.errorf("%q is not 1 to 64 characters of A-Z a-z 0-9 . _ -", d.task)
	}
	if d.maxReplay, err = (option{name: "transport purser max_replay"}).size(o.MaxReplay); err != nil {
		return d, err
	}
	if d.failures, err = (option{name: "transport purser max_failures"}).most(o.MaxFailures); err != nil {
		return d, err
	}
	if d.maxSpool = noSpool; o.MaxSpool != off {
		d.maxSpool, err = option{name: "transport purser max_spool"}.size(o.MaxSpool)
	}
	return d, err
}

// size is an option that is a number of bytes; 0 when it is not set.
func (o option) size(given string) (int64, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := humanize.ParseBytes(v)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return 0, o.errorf("%q is not a size such as 1MiB", v)
	}
	return int64(n), nil
}

// payOptions are the options as package proxy takes them.
func (o DoorOptions) payOptions(d payingDoor, bounds admission.Options) proxy.PayOptions {
	return proxy.PayOptions{
		MaxReplay: d.maxReplay, MaxSpool: d.maxSpool,
		ChallengeHeaders: o.ChallengeHeaders, AllowHTTP: o.AllowHTTP, Declined: declinedByProxy,
		MaxFailures: d.failures, Admission: bounds, Observer: doorObserver{pay.DoorTransport},
	}
}

// parse reads one subdirective, if it is an option of a door.
func (o *DoorOptions) parse(d *caddyfile.Dispenser) (known bool, err error) {
	lists := map[string]*[]string{
		"allow_http": &o.AllowHTTP, "challenge_header": &o.ChallengeHeaders,
	}
	single := map[string]*string{
		"key": &o.Key, "key_file": &o.KeyFile, "task": &o.Task, "max_replay": &o.MaxReplay, "max_spool": &o.MaxSpool,
		"max_failures": &o.MaxFailures,
	}
	if into, ok := lists[d.Val()]; ok {
		var v string
		if !d.AllArgs(&v) {
			return true, d.ArgErr()
		}
		*into = append(*into, v)
		return true, nil
	}
	into, ok := single[d.Val()]
	if !ok {
		return false, nil
	}
	if err := parseOption(d, into); err != nil {
		return true, err
	}
	// Refused before it gets into the configuration.
	if _, err := doorKeyOption.reference(o.Key); err != nil {
		return true, d.WrapErr(err)
	}
	return true, nil
}
