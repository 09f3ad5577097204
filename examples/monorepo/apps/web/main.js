// A folder without a pointer: kbhub walks up and finds the platform's.
