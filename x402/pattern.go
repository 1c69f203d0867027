package x402

import (
	"strconv"
	"strings"

	"github.com/purserpay/purser/money"
)

// maxPattern bounds a seller's pattern, in bytes.
const maxPattern = 128

// matches reports whether a seller's pattern surely matches an id. It knows the forms that sellers use
// for ids: characters and classes in a row, such as ^[a-zA-Z0-9_-]+$ or ^[0-9a-f]{8}-[0-9a-f]{4}. It
// compiles no regular expression, because 120 bytes of one can take a second to compile.
func matches(pattern, id string) bool {
	if len(pattern) > maxPattern || len(id) > maxPattern {
		return false
	}
	rest, anchored := strings.CutPrefix(pattern, "^")
	reached := make([]bool, len(id)+1) // reached[i]: the pattern so far can match up to id[i]
	for i := range reached {
		reached[i] = i == 0 || !anchored
	}
	for rest != "" && rest != "$" {
		var set [128]bool
		var least, most int
		var known bool
		if set, rest, known = nextClass(rest); known {
			least, most, rest, known = quantifier(rest)
		}
		if !known {
			return false
		}
		reached = repeated(reached, id, set, least, most)
	}
	if rest == "$" {
		return reached[len(id)]
	}
	for _, here := range reached {
		if here {
			return true
		}
	}
	return false
}

// repeated returns where a repeated class can end if it begins at one of some places.
func repeated(begins []bool, id string, set [128]bool, least, most int) []bool {
	ends := make([]bool, len(begins))
	for i, here := range begins {
		for n := 0; here && n <= most; n++ {
			if n >= least {
				ends[i+n] = true
			}
			if i+n == len(id) || id[i+n] >= 128 || !set[id[i+n]] {
				break
			}
		}
	}
	return ends
}

// nextClass reads the class or character that a pattern begins with.
func nextClass(pattern string) (set [128]bool, rest string, known bool) {
	size := 1
	switch c := pattern[0]; {
	case c == '[':
		inside, after, closed := strings.Cut(pattern[1:], "]")
		set, known = class(inside)
		return set, after, known && closed
	case c == '.':
		set, known = class("!-Z_-~")
		return set, pattern[1:], known
	case c == '\\' && len(pattern) > 1:
		size = 2
	case !idByte(c):
		return set, "", false
	}
	set, known = class(pattern[:size])
	return set, pattern[size:], known
}

// class reads the inside of a class: characters, ranges, \w, \d and \-.
func class(inside string) (set [128]bool, known bool) {
	without := strings.ReplaceAll(inside, `\-`, "")
	set['-'] = without != inside
	inside = strings.ReplaceAll(strings.ReplaceAll(without, `\w`, "a-zA-Z0-9_"), `\d`, "0-9")
	for inside != "" {
		low, high, size := inside[0], inside[0], 1
		if len(inside) > 2 && inside[1] == '-' {
			high, size = inside[2], 3
		}
		if low <= ' ' || high >= 127 || low > high || strings.ContainsAny(inside[:size], `\[]^`) {
			return set, false
		}
		for c := low; c <= high; c++ {
			set[c] = true
		}
		inside = inside[size:]
	}
	return set, true
}

// quantifier reads how often a class is repeated. The rest begins with no other quantifier.
func quantifier(text string) (least, most int, rest string, known bool) {
	least, most, rest, known = 1, 1, text, true
	switch {
	case strings.HasPrefix(text, "+"):
		most, rest = maxPattern, text[1:]
	case strings.HasPrefix(text, "*"):
		least, most, rest = 0, maxPattern, text[1:]
	case strings.HasPrefix(text, "?"):
		least, rest = 0, text[1:]
	case strings.HasPrefix(text, "{"):
		var inside string
		if inside, rest, known = strings.Cut(text[1:], "}"); known {
			least, most, known = bounds(inside)
		}
	}
	return least, most, rest, known && (rest == "" || !strings.ContainsRune("+*?{", rune(rest[0])))
}

// bounds reads the numbers of a quantifier: {8}, {16,} or {16,128}.
func bounds(inside string) (least, most int, known bool) {
	first, last, ranged := strings.Cut(inside, ",")
	least, err := strconv.Atoi(first)
	most = least
	if ranged && last == "" {
		return least, maxPattern, err == nil && money.AllDigits(first)
	}
	if ranged && err == nil {
		most, err = strconv.Atoi(last)
	}
	return least, most, err == nil && money.AllDigits(first) && (!ranged || money.AllDigits(last)) && least <= most
}
