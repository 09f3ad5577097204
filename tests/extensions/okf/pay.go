package shop

// Pay pays.
func Pay(amount int) int {
	return amount * 2
}

func Refund(amount int) int {
	return -amount
}
