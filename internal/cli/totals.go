package cli

import (
	"errors"
	"fmt"
	"time"
)

// totalPatch gathers what a flag says of a task's total, as members of a merge patch.
type totalPatch map[string]any

// The words of a total beside its amount.
const (
	totalWord   = "total"
	untilWord   = "until"
	restartWord = "restart"
)

// read takes a word of a total and its value. ours is false for other words.
func (p totalPatch) read(word, value string) (ours bool, err error) {
	if _, twice := p[word]; twice {
		return true, fmt.Errorf("%s is there twice", word)
	}
	switch word {
	case totalWord:
		if p[word], err = readCap(value); p[word] == off {
			p[word] = nil
		}
	case untilWord:
		p[word], err = readUntil(value, time.Now())
	case restartWord:
		if value != "" {
			err = errors.New("restart stands without a value")
		}
		p[word] = true
	default:
		return false, nil
	}
	return true, err
}

// into adds the total to the patch of a task.
func (p totalPatch) into(budget map[string]any) error {
	if len(p) == 0 {
		return nil
	}
	amount, given := p[totalWord]
	if given && amount == nil {
		if len(p) > 1 {
			return errors.New("total:off takes the total and its end away: it goes with neither until nor restart")
		}
		budget[totalWord] = nil
		return nil
	}
	total := map[string]any{}
	if given {
		total["amount"] = amount
	}
	for _, word := range []string{untilWord, restartWord} {
		if value, given := p[word]; given {
			total[word] = value
		}
	}
	budget[totalWord] = total
	return nil
}

// readUntil reads the end of a task: the next such time of the day where now is, a time in RFC 3339, or one from now on
// such as +8h. It is whole seconds of UTC; nil takes the end away.
func readUntil(text string, now time.Time) (any, error) {
	if text == off || text == byDefault {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return endText(at), nil
	}
	if clock, err := time.Parse("15:04", text); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
		if !at.After(now) {
			at = time.Date(now.Year(), now.Month(), now.Day()+1, clock.Hour(), clock.Minute(), 0, 0, now.Location())
		}
		return endText(at), nil
	}
	if len(text) > 1 && text[0] == '+' {
		d, err := time.ParseDuration(text[1:])
		if whole, is := days(text[1:]); is {
			d, err = whole, nil
		}
		if err == nil && d > 0 {
			return endText(now.Add(d)), nil
		}
	}
	return nil, fmt.Errorf("until:%s is neither a time of the day such as 18:00, nor one such as 2026-12-01T18:00:00Z, nor one from now such as +8h, nor off", text)
}

func endText(at time.Time) string { return at.UTC().Truncate(time.Second).Format(time.RFC3339) }
