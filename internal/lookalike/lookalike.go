// Package lookalike tells names of hosts that a reader takes for each other. It knows names only; which of them
// were paid, and what follows, is the caller's.
package lookalike

import (
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/unicode/norm"
)

const (
	// shortest is the length of the shortest label that is compared with one under another ending. Short ones
	// like "api" belong to many.
	shortest = 4
	// shortestTypo is the length of the shortest label that is compared but for a character.
	shortestTypo = 5
)

// Site returns the domain that its owner has registered, in ASCII. It is "" for addresses, for names without a
// dot, and for those that only a local network resolves.
func Site(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ""
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return ""
	}
	for _, local := range []string{"localhost", "local", "internal", "lan", "intranet", "home.arpa"} {
		if host == local || strings.HasSuffix(host, "."+local) {
			return ""
		}
	}
	return site
}

// Of returns the one of some hosts that another host can be taken for; "": none. Hosts of one site have one owner,
// so they never count.
func Of(host string, known []string) string {
	site := Site(host)
	if site == "" {
		return ""
	}
	for _, other := range known {
		if s := Site(other); s != "" && s != site && (resemble(site, s) || imitates(host, site, s)) {
			return other
		}
	}
	return ""
}

// resemble reports whether two sites are taken for each other: by letters that look alike, by one character, or
// because they differ in their ending alone.
func resemble(a, b string) bool {
	inA, inB := label(a), label(b)
	lookA, lookB := skeleton(inA), skeleton(inB)
	switch n := min(len([]rune(lookA)), len([]rune(lookB))); {
	case inA == inB:
		return n >= shortest
	case numbered(inA, inB):
		return false
	case lookA == lookB:
		return true
	default:
		return n >= shortestTypo && apart(lookA, lookB)
	}
}

// imitates reports whether the name of another site stands in front of a host's own, as in
// "example.com.pay.net" and "example-com.net".
func imitates(host, site, other string) bool {
	front := "." + strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), "."), site)
	if strings.Contains(front, "."+other+".") {
		return true
	}
	dashed := strings.ReplaceAll(other, ".", "-")
	for l := range strings.SplitSeq(front+label(site), ".") {
		if l == dashed {
			return true
		}
	}
	return false
}

// label returns the first label of a site.
func label(site string) string {
	l, _, _ := strings.Cut(site, ".")
	return l
}

// skeleton returns a label as a reader sees it: letters and digits that look alike become one of them.
func skeleton(l string) string {
	shown, _ := idna.Punycode.ToUnicode(l) // a label that it cannot decode stays as it is
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(shown)) {
		if unicode.Is(unicode.Mn, r) {
			continue // an accent
		}
		if latin, is := alike[r]; is {
			r = latin
		}
		b.WriteRune(r)
	}
	return pairs.Replace(b.String())
}

// pairs are two letters that look like one.
var pairs = strings.NewReplacer("rn", "m", "vv", "w")

// alike holds letters that look like a Latin one, of the scripts that have most of them.
var alike = map[rune]rune{
	'0': 'o', '1': 'l', 'i': 'l', 'ı': 'l', '|': 'l', 'ł': 'l', 'ø': 'o', 'đ': 'd', 'ɡ': 'g', 'ɑ': 'a', 'ſ': 's',
	// Cyrillic
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'н': 'h', 'і': 'l', 'ј': 'j', 'к': 'k', 'ӏ': 'l', 'м': 'm',
	'п': 'n', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'г': 'r', 'ѕ': 's', 'т': 't', 'ѵ': 'v', 'ԝ': 'w', 'х': 'x', 'у': 'y', 'ү': 'y',
	// Greek
	'α': 'a', 'β': 'b', 'ϲ': 'c', 'ε': 'e', 'η': 'n', 'ι': 'l', 'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't', 'υ': 'u',
	'χ': 'x', 'γ': 'y', 'ω': 'w',
	// Armenian
	'ց': 'g', 'հ': 'h', 'յ': 'j', 'ո': 'n', 'օ': 'o', 'զ': 'q', 'ս': 'u',
}

// apart reports whether two labels differ by one character: another one, one more, or two in another order.
func apart(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	i := 0
	for i < len(x) && x[i] == y[i] {
		i++
	}
	rest := func(from, of int) bool { return string(x[from:]) == string(y[of:]) }
	switch len(y) - len(x) {
	case 0:
		return i < len(x) && (rest(i+1, i+1) && !lettered(x, i) || i+1 < len(x) && x[i] == y[i+1] && x[i+1] == y[i] && rest(i+2, i+2))
	case 1:
		return rest(i, i+1)
	}
	return false
}

// lettered reports whether a character is a part of its own in a label, as the last one of "shop-a".
func lettered(l []rune, at int) bool {
	return (at == 0 || l[at-1] == '-') && (at+1 == len(l) || l[at+1] == '-')
}

// numbered reports whether two labels have numbers and differ in them alone, like "node1" and "node20".
func numbered(a, b string) bool {
	without := func(l string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, l)
	}
	short := without(a)
	return short == without(b) && len(short) < len(a) && len(short) < len(b)
}
