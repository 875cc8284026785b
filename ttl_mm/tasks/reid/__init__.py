"""Person re-identification on SYSU-30k, Market-1501 and folders named like them."""
